// The device that each thread has selected. If a thread without one frees anything, CUDA initialises device
// 0, even if the process uses another.
#pragma once

#include <atomic>
#include <optional>

namespace troupe::kernels::cuda {

/// A thread's device, and the one that any thread of the process selected last.
class thread_device {
 public:
  /// The calling thread has selected a device.
  static void select(int ordinal) {
    own() = ordinal;
    last().store(ordinal, std::memory_order_relaxed);
  }

  static bool is_selected() { return own() != none; }

  /// The device that the calling thread must select before it frees anything; empty: it has one, or the
  /// process has none.
  static std::optional<int> missing() {
    if (is_selected())
      return std::nullopt;
    const int ordinal = last().load(std::memory_order_relaxed);
    return ordinal == none ? std::nullopt : std::optional{ordinal};
  }

 private:
  static constexpr int none = -1;

  static int& own() {
    static thread_local int ordinal = none;
    return ordinal;
  }

  static std::atomic<int>& last() {
    static std::atomic<int> ordinal = none;
    return ordinal;
  }
};

} // namespace troupe::kernels::cuda
