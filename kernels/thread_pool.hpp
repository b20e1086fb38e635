// The compute threads of a process: fork, work, join.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <type_traits>

namespace troupe::kernels {

/// What one thread runs on a part of the work. Borrowed for the call; never allocates. An exception from it
/// ends the process (std::terminate): other threads still run parts of their own.
class range_function {
 public:
  template <class Function>

  requires(!std::is_same_v<std::remove_cvref_t<Function>, range_function>)
      range_function(const Function& function)
      : object_(&function),
        call_([](const void* object, unsigned thread, std::size_t begin, std::size_t end) {
          (*static_cast<const Function*>(object))(thread, begin, end);
        }) {}

  void operator()(unsigned thread, std::size_t begin, std::size_t end) const noexcept {
    call_(object_, thread, begin, end);
  }

 private:
  const void* object_;
  void (*call_)(const void*, unsigned, std::size_t, std::size_t);
};

/// How a thread treats denormals: `kernels` flushes results and operands to zero, as the numerics contract
/// assumes, `standard` keeps them.
enum class float_mode { kernels, standard };

/// Sets the mode of the calling thread, with default rounding, and puts the old one back when it goes. Every
/// thread that computes must be under one; `standard` is for other work between.
class float_mode_guard {
 public:
  explicit float_mode_guard(float_mode mode = float_mode::kernels);
  ~float_mode_guard();
  float_mode_guard(const float_mode_guard&) = delete;
  float_mode_guard& operator=(const float_mode_guard&) = delete;

 private:
  unsigned saved_ = 0;
};

/// Lets a thread run on one core only. @errors std::system_error when the process may not use it
void pin(std::thread::native_handle_type thread, int core);

struct thread_pool_options {
  /// Threads that compute, the calling one included; 0: as many as the process may run on.
  unsigned threads = 0;
  /// Pins worker `i` to `cores[i]` (worker 0 is the caller and never pinned); empty: not pinned.
  std::span<const int> cores{};
  /// How long a waiting thread spins before it sleeps.
  std::chrono::microseconds spin{50};
};

/// Fork-join threads, one pool per process. Several threads may call at once: calls that share their work
/// with the workers take turns, while what is one part, or meets a pool of one thread, runs on its caller at
/// once. Threads that wait spin for some microseconds, then sleep on a futex. A range function must not call
/// the pool again; one that throws, be it for want of memory, ends the process (std::terminate).
class thread_pool {
 public:
  /// @errors std::system_error when a thread cannot start
  explicit thread_pool(const thread_pool_options& options = {});
  ~thread_pool();
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  /// Threads that compute, the caller included; at least 1.
  unsigned threads() const;

  /// Splits [0, count) into one contiguous part per thread, equal to within one; returns when all are done.
  /// The function sees (thread, begin, end) with thread < threads(). With a part for every thread, part t is
  /// thread t's, so that it finds in its core's cache what it wrote an op before; fewer parts are spread over
  /// the threads. A thread that comes late may find its part taken by another, so the thread number only says
  /// whose scratch to use.
  void parallel_static(std::size_t count, range_function function);

  /// Hands out [0, count) in parts of `grain`: each thread has a contiguous share of them, takes those first,
  /// then what others have left. Returns when all are done.
  void parallel_dynamic(std::size_t count, std::size_t grain, range_function function);

  /// Hands out [0, count) one by one in the same way, and tells what follows: the function sees (thread,
  /// item, next), `next` being what the same thread is called with next, or `count` where that is not known
  /// yet.
  void parallel_items(std::size_t count, range_function function);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace troupe::kernels
