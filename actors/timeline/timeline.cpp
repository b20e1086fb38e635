#include "actors/timeline/timeline.hpp"

#include <atomic>
#include <mutex>

#include "actors/timeline/sampling.hpp"

namespace troupe::timeline {

namespace detail {
std::atomic<bool> is_on{false};
} // namespace detail

namespace {

/// One per process. Never destroyed: threads may end after main.
struct timeline_state {
  std::atomic<ring_pool*> rings{nullptr};
  std::atomic<std::uint64_t> limit{0}; ///< largest key that is traced
  std::atomic<std::uint64_t> changes{0};
  std::mutex mutex;
  std::string closed{"it was started without --trace DIR, so that there is no folder for them"};
};

timeline_state& state() {
  static auto* all = new timeline_state;
  return *all;
}

/// The calling thread's ring, returned at the thread's end.
class thread_ring {
 public:
  thread_ring() = default;

  ~thread_ring() {
    if (lent_ != nullptr)
      ring_pool::give_back(*lent_);
  }

  thread_ring(const thread_ring&) = delete;
  thread_ring& operator=(const thread_ring&) = delete;

  event_ring* of(ring_pool& pool) {
    if (lent_ == nullptr)
      lent_ = pool.take();
    return lent_ == nullptr ? nullptr : &lent_->ring;
  }

 private:
  ring_pool::lent_ring* lent_ = nullptr;
};

thread_local thread_ring ring_of_this_thread;

} // namespace

std::uint64_t key_if_traced(const request_context& request) {
  if (!is_on() || request.id.empty())
    return 0;
  const auto identity = identity_of(request);
  return is_sampled(identity, state().limit.load(std::memory_order_relaxed)) ? identity.key() : 0;
}

void name_request(std::uint64_t key, const request_context& request, std::uint64_t request_number) {
  const auto identity = identity_of(request);
  event named{.kind = event_kind::request_name, .begin_ns = now_ns(), .id = key};
  named.args = {request_number, identity.trace_high, identity.trace_low, identity.parent_span};
  record(named, request.id);
}

void record(const event& what, std::string_view text) {
  auto* pool = state().rings.load(std::memory_order_acquire);
  if (pool == nullptr)
    return;
  if (auto* ring = ring_of_this_thread.of(*pool))
    ring->push(what, text);
  else
    pool->count_dropped();
}

void note(std::string_view name, std::string_view text) {
  if (!is_on())
    return;
  std::string line{name};
  line += ": ";
  line += text;
  record({.kind = event_kind::cluster_event, .begin_ns = now_ns()}, line);
}

ring_pool& open(std::size_t num_rings, std::size_t records_per_ring) {
  auto& all = state();
  const std::lock_guard lock{all.mutex};
  if (all.rings.load() == nullptr)
    all.rings.store(new ring_pool(num_rings, records_per_ring), std::memory_order_release);
  all.closed.clear();
  return *all.rings.load();
}

void close(const std::string& why) {
  auto& all = state();
  const std::lock_guard lock{all.mutex};
  detail::is_on.store(false, std::memory_order_relaxed);
  all.limit.store(0, std::memory_order_relaxed);
  all.closed = why;
  all.changes.fetch_add(1);
  all.changes.notify_all();
}

std::string start(double share) {
  auto& all = state();
  const std::lock_guard lock{all.mutex};
  if (!all.closed.empty() && share > 0)
    return all.closed;
  all.limit.store(limit_of(share), std::memory_order_relaxed);
  detail::is_on.store(share > 0, std::memory_order_relaxed);
  all.changes.fetch_add(1);
  all.changes.notify_all();
  return {};
}

std::uint64_t await_change(std::uint64_t seen) {
  state().changes.wait(seen);
  return state().changes.load();
}

void wake() {
  state().changes.fetch_add(1);
  state().changes.notify_all();
}

} // namespace troupe::timeline
