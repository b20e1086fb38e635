// One connection to one incarnation of a peer, as everybody sees it who sends to it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

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

 private:
  std::atomic<state> state_{state::meeting};
};

using peer_connection_ptr = std::shared_ptr<peer_connection>;

} // namespace troupe::wire
