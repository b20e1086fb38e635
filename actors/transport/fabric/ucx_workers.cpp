#include "actors/transport/fabric/ucx_workers.hpp"

#include <stdexcept>
#include <utility>

#include "actors/transport/fabric/shared_memory.hpp"

namespace troupe::wire {

namespace {

using namespace std::chrono_literals;

// Operations of a dead peer usually end at once. In a queue that has stopped they never end: after this time
// their worker and its 16 MiB are left alone.
constexpr auto closing_deadline = 5s;

} // namespace

ucx_workers::ucx_workers(const ucx_settings& settings, poller& events, ucx_worker::handler& owner, logger log)
    : events_(events),
      owner_(owner),
      log_(std::move(log)),
      network_(std::make_unique<ucx_worker>(settings, owner)) {
  events_.watch(network_->event_fd(), false, [] {});
}

std::unique_ptr<shared_memory_lane> ucx_workers::open_lane() {
  std::unique_ptr<shared_memory_lane> result;
  if (!spare_.empty()) {
    result = std::move(spare_.back());
    spare_.pop_back();
  } else {
    try {
      // UCX itself would say "no resources", and a queue that takes the last of it would starve the others.
      if (const auto shortage = shared_memory_shortage(); !shortage.empty())
        throw std::runtime_error(shortage);
      result = std::make_unique<shared_memory_lane>();
      result->worker = std::make_unique<ucx_worker>(ucx_settings{{}, {}, true}, owner_);
    } catch (const std::exception& e) {
      // Another process may have taken the room in between, which UCX has other words for.
      const auto shortage = shared_memory_shortage();
      if (!std::exchange(told_no_shared_memory_, true))
        log_("no-shared-memory",
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

void ucx_workers::keep_lane(std::unique_ptr<shared_memory_lane> lane) {
  if (!lane)
    return;
  events_.forget(lane->watch);
  std::erase(lanes_, lane->worker.get());
  spare_.push_back(std::move(lane));
}

void ucx_workers::close_lane(std::unique_ptr<shared_memory_lane> lane) {
  if (!lane)
    return;
  events_.forget(lane->watch);
  std::erase(lanes_, lane->worker.get());
  lane->deadline = clock::now() + closing_deadline;
  closed_.push_back(std::move(lane));
}

void ucx_workers::sweep(clock::time_point now) {
  std::erase_if(closed_, [this, now](auto& lane) {
    auto& worker = *lane->worker;
    for (int i = 0; i < 64 && worker.progress() > 0; ++i) {
    }
    const bool idle = worker.idle();
    if (!idle && now < lane->deadline)
      return false;
    // Nothing to read and yet not empty.
    if (worker.progress() == 0 && !worker.arm())
      log_("queue-stopped", "a peer died while it wrote to shared memory; its queue went with it");
    if (!idle)
      static_cast<void>(lane->worker.release());
    return true;
  });
}

unsigned ucx_workers::progress() {
  auto count = network_->progress();
  for (auto* lane : lanes_)
    count += lane->progress();
  return count;
}

bool ucx_workers::progress_closed() {
  bool idle = true;
  for (auto& lane : closed_) {
    lane->worker->progress();
    idle = lane->worker->idle() && idle;
  }
  return idle;
}

bool ucx_workers::arm() {
  bool result = network_->arm();
  for (auto* lane : lanes_)
    result = lane->arm() && result;
  return result;
}

bool ucx_workers::closing() {
  bool result = network_->closing();
  for (auto* lane : lanes_)
    result = lane->closing() || result;
  return result;
}

bool ucx_workers::connect(ucx_peer& peer) {
  // UCX refuses the address of a process on another host.
  if (peer.lane && !peer.peer.shared_memory_address.empty()) {
    peer.carrier = peer.lane->worker.get();
    peer.endpoint = peer.carrier->connect(peer.peer.shared_memory_address, peer);
  }
  if (peer.endpoint == nullptr) {
    peer.carrier = network_.get();
    peer.endpoint = peer.carrier->connect(peer.peer.worker_address, peer);
  }
  return peer.endpoint != nullptr;
}

} // namespace troupe::wire
