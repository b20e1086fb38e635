#include "kernels/thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>

#if defined(__x86_64__)
#  include <xmmintrin.h>
#endif

#include "kernels/work_shares.hpp"

namespace troupe::kernels {

namespace {

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Waits until `value` differs from `old`: first a short spin, because ops follow one another within
// microseconds during a step, then a futex, because processes share cores.
template <class T>
void wait_while(const std::atomic<T>& value, T old, std::chrono::microseconds spin) {
  const auto end = std::chrono::steady_clock::now() + spin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (value.load(std::memory_order_acquire) != old)
        return;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  value.wait(old, std::memory_order_acquire);
}

unsigned usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    return static_cast<unsigned>(CPU_COUNT(&set));
  return std::max(1U, std::thread::hardware_concurrency());
}

} // namespace

float_mode_guard::float_mode_guard([[maybe_unused]] float_mode mode) {
#if defined(__x86_64__)
  saved_ = _mm_getcsr();
  // Exceptions masked, round to nearest; flush to zero (bit 15), denormals are zero (bit 6).
  _mm_setcsr(mode == float_mode::kernels ? 0x9fc0U : 0x1f80U);
#endif
}

float_mode_guard::~float_mode_guard() {
#if defined(__x86_64__)
  _mm_setcsr(saved_);
#endif
}

void pin(std::thread::native_handle_type thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  const int rc = ::pthread_setaffinity_np(thread, sizeof set, &set);
  if (rc != 0)
    throw std::system_error(rc, std::generic_category(),
                            "pinning a compute thread to core " + std::to_string(core));
}

// A job is open while workers may enter it. `gate` holds the open bit and the number of workers inside. The
// caller closes it when no part is left, and waits only for workers inside, never for sleeping ones.
struct thread_pool::state {
  static constexpr std::uint32_t open = 0x80000000U;

  std::mutex turn; // one caller at a time
  std::atomic<std::uint32_t> generation{0};
  std::atomic<std::uint32_t> gate{0};
  std::atomic<bool> stop{false};

  // [0, count) in parts of `grain`, or if that is 0 in equal ones. `one_ahead`: parts are single items, and
  // the next one is passed along.
  struct job {
    std::size_t count = 0;
    std::size_t parts = 0;
    std::size_t grain = 0;
    bool one_ahead = false;
    const range_function* function = nullptr;
  };

  // Written while the gate is closed and empty.
  job current;
  work_shares shares;

  std::chrono::microseconds spin{};
  std::vector<std::thread> workers;

  explicit state(unsigned threads) : shares(threads) {}

  void work(unsigned thread) {
    const auto& [count, parts, grain, one_ahead, function] = current;
    for (std::size_t part = shares.take(thread); part < parts;) {
      if (one_ahead) {
        // Looks ahead only within the thread's own share: another thread may be free earlier.
        const std::size_t next = shares.take_own(thread);
        (*function)(thread, part, next);
        part = next < parts ? next : shares.take(thread);
        continue;
      }
      const std::size_t begin = grain != 0 ? part * grain : count * part / parts;
      const std::size_t end = grain != 0 ? std::min(begin + grain, count) : count * (part + 1) / parts;
      if (begin < end)
        (*function)(thread, begin, end);
      part = shares.take(thread);
    }
  }

  bool enter() {
    std::uint32_t seen = gate.load(std::memory_order_relaxed);
    while ((seen & open) != 0)
      if (gate.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire))
        return true;
    return false;
  }

  void serve(unsigned thread) {
    const float_mode_guard mode;
    std::uint32_t seen = 0;
    for (;;) {
      wait_while(generation, seen, spin);
      seen = generation.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_acquire))
        return;
      if (!enter())
        continue;
      work(thread);
      if (gate.fetch_sub(1, std::memory_order_release) == 1)
        gate.notify_one(); // closed, and this is the last worker to leave
    }
  }

  void run(const job& next) {
    const float_mode_guard mode;
    if (next.parts == 0)
      return;
    if (workers.empty() && next.one_ahead) {
      for (std::size_t item = 0; item < next.count; ++item)
        (*next.function)(0, item, item + 1);
      return;
    }
    if (next.parts == 1 || workers.empty()) {
      (*next.function)(0, 0, next.count);
      return;
    }
    const std::lock_guard lock(turn);
    current = next;
    shares.deal(next.parts);
    gate.store(open, std::memory_order_release);
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
    work(0);
    std::uint32_t inside = gate.fetch_and(~open, std::memory_order_acquire) & ~open;
    while (inside != 0) {
      wait_while(gate, inside, spin);
      inside = gate.load(std::memory_order_acquire);
    }
  }

  void join() {
    stop.store(true, std::memory_order_release);
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
    for (auto& worker : workers)
      worker.join();
  }
};

thread_pool::thread_pool(const thread_pool_options& options) {
  const unsigned threads = options.threads != 0 ? options.threads : usable_cores();
  state_ = std::make_unique<state>(threads);
  state_->spin = options.spin;
  state_->workers.reserve(threads - 1);
  try {
    for (unsigned i = 1; i < threads; ++i) {
      state_->workers.emplace_back([s = state_.get(), i] { s->serve(i); });
      if (i < options.cores.size())
        pin(state_->workers.back().native_handle(), options.cores[i]);
    }
  } catch (...) {
    state_->join();
    throw;
  }
}

thread_pool::~thread_pool() {
  state_->join();
}

unsigned thread_pool::threads() const {
  return static_cast<unsigned>(state_->workers.size()) + 1;
}

void thread_pool::parallel_static(std::size_t count, range_function function) {
  state_->run({.count = count, .parts = std::min<std::size_t>(count, threads()), .function = &function});
}

void thread_pool::parallel_dynamic(std::size_t count, std::size_t grain, range_function function) {
  state_->run({.count = count, .parts = (count + grain - 1) / grain, .grain = grain, .function = &function});
}

void thread_pool::parallel_items(std::size_t count, range_function function) {
  state_->run({.count = count, .parts = count, .one_ahead = true, .function = &function});
}

} // namespace troupe::kernels
