// Which device a thread has selected. What is given back by a thread that has selected none would have CUDA
// make device 0 ready for use, also where the process uses another one.
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

  /// What the calling thread has to select before it gives something back; nothing: it has selected a device,
  /// or the process none.
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
