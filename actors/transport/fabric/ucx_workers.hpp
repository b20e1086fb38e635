// UCX workers of one process: one for all peers over the network, and one for each peer that comes by shared
// memory. The memory of a worker has one queue for all its senders, and a sender that is killed while it
// fills its slot stops that queue for ever (uct_mm_ep_am_common_send of UCX 1.13). With a worker for each
// peer, that queue is dropped with its dead sender, and no other peer waits behind it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/transport/fabric/clock.hpp"
#include "actors/transport/fabric/poller.hpp"
#include "actors/transport/fabric/ucx_peer.hpp"
#include "actors/transport/fabric/ucx_worker.hpp"

namespace troupe::wire {

/// All calls are made on the progress thread, under the owner's worker mutex.
class ucx_workers {
 public:
  using logger = std::function<void(const char* event, const std::string& text)>;

  /// @param events  wakes up for what arrives; outlives this object, as `owner` does
  /// @throws std::runtime_error  that names the UCX call and its status
  ucx_workers(const ucx_settings& settings, poller& events, ucx_worker::handler& owner, logger log);

  ucx_worker& network() { return *network_; }

  /// @returns a lane for a peer to come; null if there is no room for one, which is logged once
  std::unique_ptr<shared_memory_lane> open_lane();

  /// Takes back the lane of a peer that never came up, to use it again; null is ignored.
  void keep_lane(std::unique_ptr<shared_memory_lane> lane);

  /// Takes the lane of a dead peer, to drop it in `sweep`; null is ignored.
  void close_lane(std::unique_ptr<shared_memory_lane> lane);

  /// Drops closed lanes whose operations have ended, or have had their time.
  void sweep(clock::time_point now);

  /// Makes progress; returns how much happened.
  unsigned progress();

  /// The same for closed lanes. @returns whether none of them has an operation under way
  bool progress_closed();

  /// @returns whether the thread may sleep until `events` wakes it
  bool arm();

  /// Whether a close of an endpoint has not ended.
  bool closing();

  /// Creates the endpoint to a peer, by shared memory if both can.
  /// @returns false if UCX refuses its address
  bool connect(ucx_peer& peer);

 private:
  poller& events_;
  ucx_worker::handler& owner_;
  logger log_;
  std::unique_ptr<ucx_worker> network_;
  std::vector<ucx_worker*> lanes_;
  std::vector<std::unique_ptr<shared_memory_lane>> spare_;
  std::vector<std::unique_ptr<shared_memory_lane>> closed_;
  bool told_no_shared_memory_ = false; // once is enough: every further peer would say the same
};

} // namespace troupe::wire
