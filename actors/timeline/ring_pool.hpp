// The rings of a process's threads: made at once, lent to threads, and read by one writer of files.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/timeline/event_ring.hpp"

namespace troupe::timeline {

/// A thread takes a ring with its first event and gives it back with its end; then it is lent again once it
/// has been read. Threads that find none have their events dropped and counted.
class ring_pool {
 public:
  /// What a reader learns of a thread. `name` is as the kernel has it.
  struct thread_id {
    uint32_t number = 0; ///< of the threads that ever had a ring, from 1
    std::array<char, 16> name{};
  };

  ring_pool(size_t num_rings, size_t records_per_ring);
  ring_pool(const ring_pool&) = delete;
  ring_pool& operator=(const ring_pool&) = delete;

  /// A ring and who has it.
  struct lent_ring {
    explicit lent_ring(size_t records) : ring(records) {}

    event_ring ring;
    thread_id owner; ///< written by the thread before it is in use, read after that
    enum class state : uint8_t { free, taken, in_use, left };
    std::atomic<state> now{state::free};
  };

  /// For the calling thread; null where none is left.
  lent_ring* take();

  /// The calling thread's, which writes no more into it.
  static void give_back(lent_ring& ring) {
    ring.now.store(lent_ring::state::left, std::memory_order_release);
  }

  void count_dropped() { dropped_.fetch_add(1, std::memory_order_relaxed); }

  /// One thread at a time reads all rings. @param take  (const thread_id&, std::span<const event>)
  /// @returns events that were dropped since the last call
  template <class Take>
  uint64_t drain(Take take) {
    uint64_t dropped = dropped_.exchange(0, std::memory_order_relaxed);
    for (auto& lent : rings_) {
      const auto before = lent->now.load(std::memory_order_acquire);
      if (before == lent_ring::state::free || before == lent_ring::state::taken)
        continue;
      lent->ring.drain([&](std::span<const event> events) { take(lent->owner, events); });
      dropped += lent->ring.take_dropped();
      if (before == lent_ring::state::left) // it was empty of writers before it was read
        lent->now.store(lent_ring::state::free, std::memory_order_release);
    }
    return dropped;
  }

 private:
  std::vector<std::unique_ptr<lent_ring>> rings_;
  std::atomic<uint32_t> last_thread_{0};
  std::atomic<uint64_t> dropped_{0};
};

} // namespace troupe::timeline
