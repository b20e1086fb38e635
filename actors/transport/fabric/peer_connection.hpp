// One connection to one incarnation of a peer, from the first byte of its handshake to its death.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/transport/fabric/peer_lane.hpp"
#include "actors/transport/fabric/rendezvous.hpp"
#include "actors/transport/fabric/ucx_worker.hpp"
#include "actors/transport/wire/frame.hpp"
#include "actors/transport/wire/payload.hpp"
#include "actors/transport/wire/window.hpp"

namespace troupe::wire {

/// A worker for one peer, by shared memory. It has died with its peer, however its queue was left.
struct shared_memory_lane {
  std::unique_ptr<ucx_worker> worker;
  poller::watch_id watch = 0;
  /// When to give up on operations that never end, once the peer is gone.
  clock::time_point deadline;
};

class peer_connection;
using peer_connection_ptr = std::shared_ptr<peer_connection>;

/// A frame that has arrived, or whose data is being fetched.
class arrival_slot : public ucx_worker::operation {
 public:
  void ended(bool success) override;

  peer_connection_ptr from;
  frame_header header;
  std::vector<std::byte> metadata;
  payload data;
  /// Where the payloads start in `data`.
  std::uint64_t payload_offset = 0;
  /// What the message costs of the sender's window; 0 for acknowledgements and pieces.
  credit due;
  bool complete = false;
  bool intact = true;
  /// Keeps the buffer while UCX may write to it, whatever becomes of the connection.
  std::shared_ptr<arrival_slot> self;
};

using slot_ptr = std::shared_ptr<arrival_slot>;

/// What UCX's callbacks leave for the progress thread to look after.
struct connection_signals {
  bool broken = false;
  bool fetched = false;
  /// A peer has got pieces and may be sent more, or has sent some and wants to be told.
  bool pieces_moved = false;
};

class peer_connection : public ucx_worker::endpoint_owner {
 public:
  enum class state : std::uint8_t { meeting, up, dead };

  peer_connection(std::uint64_t own_token, send_window::limits size, connection_signals& to_fabric)
      : token(own_token), lanes{peer_lane{size}, peer_lane{size}}, signals(to_fabric) {}

  /// Under the worker mutex: notes why this connection must end. The first reason stands.
  void doom(std::string why);

  void endpoint_failed(const char* why) override;

  state current() const { return state_.load(std::memory_order_acquire); }

  /// Under the worker mutex: a message or a piece has come, in turn, through the bulk lane.
  void piece_arrived();

  /// Under the worker mutex: the peer says how many of these it has got.
  /// @returns false when that many were never sent
  bool pieces_received(std::uint64_t count);

  void become(state next) { state_.store(next, std::memory_order_release); }

  // -- fixed once up ----------------------------------------------------------

  /// Our name for this connection, unguessable, never used again.
  const std::uint64_t token;
  introduction peer;
  /// The endpoint we dialled; empty when the peer did.
  std::string dialled;

  // -- any thread -------------------------------------------------------------

  /// By `wire::lane`; their windows, that is.
  std::array<peer_lane, num_lanes> lanes;

  peer_lane& lane_of(const frame_header& header) {
    return lanes[static_cast<std::size_t>(header.travels_in())];
  }

  // -- under the fabric's worker mutex ----------------------------------------

  /// How frames go to the peer.
  ucp_ep* endpoint = nullptr;
  ucx_worker* carrier = nullptr;
  /// How frames may come from the peer, besides the worker of all; null without shared memory.
  std::unique_ptr<shared_memory_lane> lane;
  bulk_traffic bulk;
  std::string failure;
  connection_signals& signals;

  // -- progress thread only ---------------------------------------------------

  descriptor socket;
  poller::watch_id watch = 0;
  record_reader reader;
  std::vector<std::byte> unsent;
  clock::time_point last_heard;
  /// A frame made no sense: nothing behind it is handed out.
  bool malformed = false;

 private:
  std::atomic<state> state_{state::meeting};
};

} // namespace troupe::wire
