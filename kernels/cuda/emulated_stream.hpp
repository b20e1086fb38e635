// The queue behind an emulated stream: for device_emulated.cpp and launch.cuh only.
#pragma once

#include <deque>
#include <functional>

namespace troupe::kernels::cuda {

/// Work that waits for somebody to wait for it.
struct emulated_stream {
  std::deque<std::function<void()>> work;

  /// Does the first `count` pieces of work, or all there are.
  void do_work(std::size_t count);
};

} // namespace troupe::kernels::cuda
