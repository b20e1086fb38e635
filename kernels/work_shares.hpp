// Distributes the items of an op over threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace troupe::kernels {

/// Each thread takes its own contiguous share first, whose data may be in its core's cache from the previous
/// op, then what others have left.
class work_shares {
 public:
  /// @param threads  at least 1
  explicit work_shares(unsigned threads) : shares_(std::make_unique<share[]>(threads)), threads_(threads) {}

  /// Distributes items [0, count) in shares equal to within one. No thread may be taking.
  void deal(std::size_t count) {
    count_ = count;
    for (unsigned t = 0; t < threads_; ++t) {
      shares_[t].next.store(count * t / threads_, std::memory_order_relaxed);
      shares_[t].end = count * (t + 1) / threads_;
    }
  }

  /// @returns the next item of the thread's own share, or `count` when none is left
  std::size_t take_own(unsigned thread) { return take_from(shares_[thread]); }

  /// @returns an item of the thread's own share or, if none is left, of another's; `count` at the end
  std::size_t take(unsigned thread) {
    std::size_t item = count_;
    for (unsigned i = 0; i < threads_ && item == count_; ++i)
      item = take_from(shares_[(thread + i) % threads_]);
    return item;
  }

 private:
  struct alignas(64) share {
    std::atomic<std::size_t> next{0};
    std::size_t end = 0;
  };

  std::size_t take_from(share& from) {
    if (from.next.load(std::memory_order_relaxed) >= from.end)
      return count_;
    const std::size_t item = from.next.fetch_add(1, std::memory_order_relaxed);
    return item < from.end ? item : count_;
  }

  std::unique_ptr<share[]> shares_;
  unsigned threads_;
  std::size_t count_ = 0;
};

} // namespace troupe::kernels
