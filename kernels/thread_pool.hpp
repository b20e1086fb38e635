// The compute threads of a process, for fork-join work.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <type_traits>

namespace troupe::kernels {

/// The function that a thread runs on its part. Borrowed for the call; never allocates. An exception from it
/// ends the process (std::terminate): other threads are still running their parts.
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

/// Sets the mode of the calling thread, with default rounding, and restores the old one at its end. Every
/// computing thread must have one; `standard` is for other work in between.
class float_mode_guard {
 public:
  explicit float_mode_guard(float_mode mode = float_mode::kernels);
  ~float_mode_guard();
  float_mode_guard(const float_mode_guard&) = delete;
  float_mode_guard& operator=(const float_mode_guard&) = delete;

 private:
  unsigned saved_ = 0;
};

/// Binds a thread to one core.
/// @throws std::system_error  the process may not use that core
void pin(std::thread::native_handle_type thread, int core);

struct thread_pool_options {
  /// Computing threads, the caller included; 0: as many as the process may run on.
  unsigned threads = 0;
  /// Pins worker `i` to `cores[i]` (worker 0, the caller, is never pinned); empty: not pinned.
  std::span<const int> cores{};
  /// How long a waiting thread spins before it sleeps.
  std::chrono::microseconds spin{50};
};

/// Fork-join threads, one pool per process. Several threads may call at once: calls that share work with the
/// workers take turns; single parts, and calls on a pool of one thread, run on the caller at once. Waiting
/// threads spin for some microseconds, then sleep on a futex. A range function must not call the pool again;
/// one that throws, for example without memory, ends the process (std::terminate).
class thread_pool {
 public:
  /// @throws std::system_error  a thread cannot start
  explicit thread_pool(const thread_pool_options& options = {});
  ~thread_pool();
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  /// Computing threads, the caller included; at least 1.
  unsigned threads() const;

  /// Splits [0, count) into one contiguous part per thread, equal to within one; returns when all are done.
  /// The function gets (thread, begin, end) with thread < threads(). With a part for every thread, part t
  /// goes to thread t, which finds its results of the previous op in its core's cache; fewer parts are spread
  /// over the threads. Another thread may take a late thread's part, so use the thread number only to choose
  /// scratch.
  void parallel_static(std::size_t count, range_function function);

  /// Distributes [0, count) in parts of `grain`: each thread takes its own contiguous share first, then what
  /// others have left. Returns when all are done.
  void parallel_dynamic(std::size_t count, std::size_t grain, range_function function);

  /// Distributes [0, count) item by item in the same way, with a look-ahead: the function gets (thread, item,
  /// next), where `next` is the item that the same thread gets next, or `count` if that is not known yet.
  void parallel_items(std::size_t count, range_function function);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace troupe::kernels
