// One connection to one incarnation of a peer, as all fabrics have it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "actors/transport/fabric/clock.hpp"
#include "actors/transport/fabric/peer_lane.hpp"
#include "actors/transport/wire/frame.hpp"
#include "actors/transport/wire/handshake.hpp"
#include "actors/transport/wire/window.hpp"

namespace troupe::wire {

/// From the first byte of the handshake to the peer's death. Fabrics add what they need to carry frames.
class peer_connection {
 public:
  enum class state : std::uint8_t { meeting, up, dead };

  peer_connection(std::uint64_t own_token, send_window::limits size)
      : token(own_token), lanes{peer_lane{size}, peer_lane{size}} {}

  virtual ~peer_connection();
  peer_connection(const peer_connection&) = delete;
  peer_connection& operator=(const peer_connection&) = delete;

  state current() const { return state_.load(std::memory_order_acquire); }

  void become(state next) { state_.store(next, std::memory_order_release); }

  /// Takes what the peer says of itself in the handshake, its windows among it.
  void meet(introduction who) {
    peer = std::move(who);
    for (auto& lane : lanes) {
      lane.window.limit({peer.window_bytes, peer.window_frames});
      lane.taken.limit({peer.window_bytes, peer.window_frames});
    }
  }

  // -- fixed once up ----------------------------------------------------------

  /// Name that this process gives the connection: unguessable, never used again.
  const std::uint64_t token;
  introduction peer;
  /// The endpoint that this process dialled; empty if the peer dialled.
  std::string dialled;

  // -- progress thread only ---------------------------------------------------

  clock::time_point last_heard;

  // -- any thread -------------------------------------------------------------

  /// By `wire::lane`; only their windows may be used by any thread.
  std::array<peer_lane, num_lanes> lanes;

  peer_lane& lane_of(const frame_header& header) {
    return lanes[static_cast<std::size_t>(header.travels_in())];
  }

 private:
  std::atomic<state> state_{state::meeting};
};

using peer_connection_ptr = std::shared_ptr<peer_connection>;

} // namespace troupe::wire
