// The fabric's UCX workers: one for all peers over the network, and one for each peer that comes by shared
// memory. In the memory of a worker there is one queue for all who send to it, and a sender that is killed
// while it fills its slot stops that queue for ever (uct_mm_ep_am_common_send of UCX 1.13). With a worker for
// each peer, that queue is dropped with its dead sender, and nobody else waits behind it.

#include <stdexcept>
#include <utility>

#include "actors/transport/fabric/shared_memory.hpp"
#include "actors/transport/fabric/ucx_fabric.hpp"

namespace troupe::wire {

namespace {

using namespace std::chrono_literals;

// Operations of a dead peer usually end at once. Those that hang in a queue that has stopped never do: their
// worker and its 16 MiB are then left alone.
constexpr auto closing_deadline = 5s;

} // namespace

std::unique_ptr<shared_memory_lane> ucx_fabric::open_lane() {
  std::unique_ptr<shared_memory_lane> result;
  if (!spare_lanes_.empty()) {
    result = std::move(spare_lanes_.back());
    spare_lanes_.pop_back();
  } else {
    try {
      // UCX itself would say "no resources", and a queue that takes the last of it would starve the others.
      if (const auto shortage = shared_memory_shortage(); !shortage.empty())
        throw std::runtime_error(shortage);
      result = std::make_unique<shared_memory_lane>();
      result->worker =
          std::make_unique<ucx_worker>(ucx_settings{{}, {}, true}, static_cast<ucx_worker::handler&>(*this));
    } catch (const std::exception& e) {
      // Another process may have taken the room in between, which UCX has other words for.
      const auto shortage = shared_memory_shortage();
      if (!std::exchange(told_no_shared_memory_, true))
        log("no-shared-memory",
            (shortage.empty() ? std::string{e.what()} : shortage)
                + "; peers that find no room are reached over TCP; give /dev/shm more, in a "
                  "container with --shm-size, or go without --shared-memory");
      return nullptr;
    }
  }
  result->watch = events_.watch(result->worker->event_fd(), false, [] {});
  lanes_.push_back(result->worker.get());
  return result;
}

void ucx_fabric::keep_lane(std::unique_ptr<shared_memory_lane> lane) {
  if (!lane)
    return;
  events_.forget(lane->watch);
  std::erase(lanes_, lane->worker.get());
  spare_lanes_.push_back(std::move(lane));
}

void ucx_fabric::close_lane(std::unique_ptr<shared_memory_lane> lane) {
  if (!lane)
    return;
  events_.forget(lane->watch);
  std::erase(lanes_, lane->worker.get());
  lane->deadline = clock::now() + closing_deadline;
  closing_lanes_.push_back(std::move(lane));
}

void ucx_fabric::sweep_lanes(clock::time_point now) {
  std::lock_guard guard{worker_mutex_};
  std::erase_if(closing_lanes_, [this, now](auto& lane) {
    auto& worker = *lane->worker;
    for (int i = 0; i < 64 && worker.progress() > 0; ++i) {
    }
    const bool idle = worker.idle();
    if (!idle && now < lane->deadline)
      return false;
    // Nothing to read and yet not empty.
    if (worker.progress() == 0 && !worker.arm())
      log("queue-stopped", "a peer died while it wrote to shared memory; its queue went with it");
    if (!idle)
      static_cast<void>(lane->worker.release());
    return true;
  });
}

unsigned ucx_fabric::progress_workers() {
  auto count = worker_->progress();
  for (auto* lane : lanes_)
    count += lane->progress();
  return count;
}

bool ucx_fabric::arm_workers() {
  bool result = worker_->arm();
  for (auto* lane : lanes_)
    result = lane->arm() && result;
  return result;
}

bool ucx_fabric::workers_closing() {
  bool result = worker_->closing();
  for (auto* lane : lanes_)
    result = lane->closing() || result;
  return result;
}

void ucx_fabric::connect_worker(ucx_peer& peer) {
  // UCX refuses the address of a process on another host.
  if (peer.lane && !peer.peer.shared_memory_address.empty()) {
    peer.carrier = peer.lane->worker.get();
    peer.endpoint = peer.carrier->connect(peer.peer.shared_memory_address, peer);
  }
  if (peer.endpoint == nullptr) {
    peer.carrier = worker_.get();
    peer.endpoint = peer.carrier->connect(peer.peer.worker_address, peer);
  }
}

} // namespace troupe::wire
