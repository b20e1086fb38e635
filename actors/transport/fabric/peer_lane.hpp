// One lane of a connection, both directions, and the large messages that leave through it in pieces.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "actors/transport/wire/window.hpp"

namespace troupe::wire {

class arrival_slot;
struct outgoing_message;

struct peer_lane {
  explicit peer_lane(send_window::limits size) : window(size), taken(size) {}

  // -- any thread -------------------------------------------------------------

  /// What we send, and what the peer sends.
  send_window window;
  receive_window taken;

  // -- under the fabric's worker mutex ----------------------------------------

  std::uint64_t next_sequence = 0;
  /// Arrived, but not in turn or not complete, by sequence number.
  std::map<std::uint64_t, std::shared_ptr<arrival_slot>> waiting;
  std::uint64_t next_arrival = 0;
};

/// What only the bulk lane needs. Under the fabric's worker mutex.
///
/// UCX and the kernel hold no more than `max_pieces_under_way` pieces for a peer at a time, so that a frame
/// of the urgent lane never has more than those ahead of it; the others wait here. While this process
/// exchanges urgent messages, there is one piece at a time, and then a pause of `bulk_pause_factor` times as
/// long as it took: pieces take processor time and bandwidth from urgent messages.
struct bulk_traffic {
  std::deque<std::shared_ptr<outgoing_message>> outgoing;
  std::uint64_t pieces_sent = 0;
  /// How many of these the peer has got, as it says.
  std::uint64_t pieces_received = 0;
  std::chrono::steady_clock::time_point last_sent;
  std::chrono::steady_clock::time_point pause_until;
  /// How many pieces of the peer have come in turn, and what of that it has been told.
  std::uint64_t pieces_arrived = 0;
  std::uint64_t pieces_told = 0;
  /// The message whose pieces are arriving, and how many bytes of it are still to come.
  std::shared_ptr<arrival_slot> incoming;
  std::uint64_t rest_bytes = 0;
};

/// Large enough that a piece costs more to carry than to begin, and small enough to be one eager segment of
/// UCX (UCX_TCP_TX_SEG_SIZE): some 30 µs over loopback, 100 µs at 10 Gbit/s.
inline constexpr std::uint64_t piece_bytes = std::uint64_t{128} << 10;

/// 512 KiB: more than is on its way at once over 100 Gbit/s and 40 µs.
inline constexpr std::uint64_t max_pieces_under_way = 4;

/// Bulk is on its way for at most an eighth of the time ...
inline constexpr int bulk_pause_factor = 7;
/// ... and never stops for longer than this.
inline constexpr std::chrono::milliseconds longest_pause{20};
/// For so long after an urgent message the next one is expected: some steps of a model.
inline constexpr std::chrono::milliseconds urgent_for{50};

} // namespace troupe::wire
