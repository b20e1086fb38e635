#include "actors/timeline/ring_pool.hpp"

#include <pthread.h>

namespace troupe::timeline {

ring_pool::ring_pool(std::size_t num_rings, std::size_t records_per_ring) {
  for (std::size_t i = 0; i < num_rings; ++i)
    rings_.push_back(std::make_unique<lent_ring>(records_per_ring));
}

ring_pool::lent_ring* ring_pool::take() {
  for (auto& lent : rings_) {
    auto expected = lent_ring::state::free;
    if (!lent->now.compare_exchange_strong(expected, lent_ring::state::taken, std::memory_order_acquire))
      continue;
    lent->owner.number = last_thread_.fetch_add(1, std::memory_order_relaxed) + 1;
    lent->owner.name = {};
    pthread_getname_np(pthread_self(), lent->owner.name.data(), lent->owner.name.size());
    lent->now.store(lent_ring::state::in_use, std::memory_order_release);
    return lent.get();
  }
  return nullptr;
}

} // namespace troupe::timeline
