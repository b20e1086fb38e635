// A lock-free ring of fixed size for events from one thread to another.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "actors/timeline/event.hpp"

namespace troupe::timeline {

/// One thread writes and one reads. An event without room is dropped and counted: the writer never waits.
/// Nothing is allocated after construction.
class event_ring {
 public:
  /// @param capacity  records; a power of two
  explicit event_ring(std::size_t capacity)
      : mask_(capacity - 1), records_(std::make_unique_for_overwrite<event[]>(capacity)) {}

  event_ring(const event_ring&) = delete;
  event_ring& operator=(const event_ring&) = delete;

  std::size_t capacity() const { return mask_ + 1; }

  /// For the writer. Writes the event with its text, or nothing.
  /// @returns false if it was dropped
  bool push(event added, std::string_view text = {}) {
    text = text.substr(0, max_text_bytes);
    added.text_bytes = static_cast<std::uint32_t>(text.size());
    added.text_parts = static_cast<std::uint16_t>((text.size() + sizeof(event) - 1) / sizeof(event));
    const auto head = head_.load(std::memory_order_relaxed);
    const std::size_t wanted = std::size_t{1} + added.text_parts;
    if (capacity() - (head - tail_.load(std::memory_order_acquire)) < wanted) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    records_[head & mask_] = added;
    for (std::uint16_t part = 0; part < added.text_parts; ++part) {
      auto* to = reinterpret_cast<char*>(&records_[(head + 1 + part) & mask_]);
      const auto piece = text.substr(part * sizeof(event), sizeof(event));
      std::fill_n(std::copy(piece.begin(), piece.end(), to), sizeof(event) - piece.size(), '\0');
    }
    head_.store(head + wanted, std::memory_order_release);
    return true;
  }

  /// For the reader: takes all records, oldest first, as one or two runs.
  /// @param take  called with std::span<const event>; the end of a run may split a text
  /// @returns records
  template <class Take>
  std::size_t drain(Take take) {
    const auto tail = tail_.load(std::memory_order_relaxed);
    const auto count = head_.load(std::memory_order_acquire) - tail;
    const auto first = std::min(count, capacity() - (tail & mask_));
    if (first > 0)
      take(std::span<const event>{&records_[tail & mask_], first});
    if (count > first)
      take(std::span<const event>{&records_[0], count - first});
    tail_.store(tail + count, std::memory_order_release);
    return count;
  }

  /// For the reader: events dropped since the last call.
  std::uint64_t take_dropped() { return dropped_.exchange(0, std::memory_order_relaxed); }

 private:
  const std::size_t mask_;
  const std::unique_ptr<event[]> records_;
  alignas(64) std::atomic<std::size_t> head_{0};
  std::atomic<std::uint64_t> dropped_{0};
  alignas(64) std::atomic<std::size_t> tail_{0};
};

} // namespace troupe::timeline
