// The queue of an emulated stream; only for device_emulated.cpp and launch.cuh.
#pragma once

#include <deque>
#include <functional>

namespace troupe::kernels::cuda {

/// Work that is done when a thread waits for it.
struct emulated_stream {
  std::deque<std::function<void()>> work;

  /// Does the first `count` pieces of work, or all.
  void do_work(std::size_t count);
};

} // namespace troupe::kernels::cuda
