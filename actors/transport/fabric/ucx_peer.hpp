// One connection over UCX to one incarnation of a peer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/transport/fabric/clock.hpp"
#include "actors/transport/fabric/peer_connection.hpp"
#include "actors/transport/fabric/poller.hpp"
#include "actors/transport/fabric/rendezvous.hpp"
#include "actors/transport/fabric/socket.hpp"
#include "actors/transport/fabric/ucx_worker.hpp"
#include "actors/transport/wire/frame.hpp"
#include "actors/transport/wire/payload.hpp"
#include "actors/transport/wire/record.hpp"
#include "actors/transport/wire/window.hpp"

namespace troupe::wire {

/// A worker for one peer, by shared memory. It has died with its peer, however its queue was left.
struct shared_memory_lane {
  std::unique_ptr<ucx_worker> worker;
  poller::watch_id watch = 0;
  /// When to give up on operations that never end, once the peer is gone.
  clock::time_point deadline;
};

class ucx_peer;
using ucx_peer_ptr = std::shared_ptr<ucx_peer>;

/// A frame that has arrived, or whose data is being fetched.
class arrival_slot : public ucx_worker::operation {
 public:
  void ended(bool success) override;

  ucx_peer_ptr from;
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

class ucx_peer : public peer_connection, public ucx_worker::endpoint_owner {
 public:
  ucx_peer(std::uint64_t own_token, send_window::limits size, connection_signals& to_fabric)
      : peer_connection(own_token, size), signals(to_fabric) {}

  /// Under the worker mutex: notes why this connection must end. The first reason stands.
  void doom(std::string why);

  void endpoint_failed(const char* why) override;

  /// Under the worker mutex: a message or a piece has come, in turn, through the bulk lane.
  void piece_arrived();

  /// Under the worker mutex: the peer says how many of these it has got.
  /// @returns false when that many were never sent
  bool pieces_received(std::uint64_t count);

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
  /// A frame made no sense: nothing behind it is handed out.
  bool malformed = false;
};

} // namespace troupe::wire
