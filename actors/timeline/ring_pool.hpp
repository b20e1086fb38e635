// The rings of a process's threads: allocated once, lent to threads, and read by one writer of files.
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

/// A thread takes a ring with its first event and returns it at its end; once read, it is lent again. Events
/// of threads without a ring are dropped and counted.
class ring_pool {
 public:
  /// A thread as a reader sees it. `name` is the kernel's.
  struct thread_id {
    std::uint32_t number = 0; ///< counts the threads that ever had a ring, from 1
    std::array<char, 16> name{};
  };

  ring_pool(std::size_t num_rings, std::size_t records_per_ring);
  ring_pool(const ring_pool&) = delete;
  ring_pool& operator=(const ring_pool&) = delete;

  /// A ring and its thread.
  struct lent_ring {
    explicit lent_ring(std::size_t records) : ring(records) {}

    event_ring ring;
    thread_id owner; ///< written by the thread before use, read after that
    enum class state : std::uint8_t { free, taken, in_use, left };
    std::atomic<state> now{state::free};
  };

  /// A ring for the calling thread; null if none is left.
  lent_ring* take();

  /// Returns the calling thread's ring; the thread no longer writes to it.
  static void give_back(lent_ring& ring) {
    ring.now.store(lent_ring::state::left, std::memory_order_release);
  }

  void count_dropped() { dropped_.fetch_add(1, std::memory_order_relaxed); }

  /// Reads all rings; for one thread at a time.
  /// @param take  (const thread_id&, std::span<const event>)
  /// @returns events dropped since the last call
  template <class Take>
  std::uint64_t drain(Take take) {
    std::uint64_t dropped = dropped_.exchange(0, std::memory_order_relaxed);
    for (auto& lent : rings_) {
      const auto before = lent->now.load(std::memory_order_acquire);
      if (before == lent_ring::state::free || before == lent_ring::state::taken)
        continue;
      lent->ring.drain([&](std::span<const event> events) { take(lent->owner, events); });
      dropped += lent->ring.take_dropped();
      if (before == lent_ring::state::left) // it had no writer before it was read
        lent->now.store(lent_ring::state::free, std::memory_order_release);
    }
    return dropped;
  }

 private:
  std::vector<std::unique_ptr<lent_ring>> rings_;
  std::atomic<std::uint32_t> last_thread_{0};
  std::atomic<std::uint64_t> dropped_{0};
};

} // namespace troupe::timeline
