#include "kernels/cuda/emulation.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/fiber_switch.hpp"

#ifdef TROUPE_ASAN_FIBERS
#  include <sanitizer/common_interface_defs.h>
#endif

namespace troupe::kernels::cuda::emulation {

namespace {

constexpr std::size_t stack_bytes = std::size_t{256} << 10;
constexpr std::size_t lanes = 32;
constexpr std::size_t most_value_bytes = 64;
constexpr std::size_t most_threads = 1024;                  // of a block
constexpr std::size_t most_shared = std::size_t{227} << 10; // dynamic, of a block
constexpr unsigned most_blocks_x = 0x7FFFFFFF;
constexpr unsigned most_blocks_yz = 65535;
constexpr unsigned char shared_poison = 0xA5;

// The meeting of a warp's lanes. Two sets of values alternate: a lane may reach the next meeting while others
// still read the values of this one, but not the one after.
struct warp_meeting {
  std::uint64_t round = 0;
  std::size_t arrived = 0;
  const char* kind = nullptr;
  std::size_t value_bytes = 0;
  alignas(16) std::byte values[2][lanes * most_value_bytes];

  void start() {
    round = 0;
    arrived = 0;
  }
};

enum class waits_for : std::uint8_t { nothing, warp, block };

struct copy {
  void* to;
  const void* from;
  std::size_t num_bytes;
};

struct fiber {
  fiber_place resumes_at;
  std::unique_ptr<std::byte[]> stack;
  thread_place where;
  std::size_t warp = 0;
  std::size_t lane = 0;
  waits_for waiting = waits_for::nothing;
  std::uint64_t round = 0; // the round whose end it waits for
  bool ended = false;
  std::deque<std::vector<copy>> copies{}; // groups not waited for, and last the one being collected
  void* fake_stack = nullptr;             // the address sanitizer's
};

struct machine {
  order threads_order = order::rising;
  std::vector<fiber> fibers{};
  std::vector<warp_meeting> warps{};
  std::uint64_t block_round = 0;
  std::size_t block_arrived = 0;
  std::vector<std::byte> shared{};
  std::byte* shared_start = nullptr;
  const std::function<void()>* kernel = nullptr;
  const char* name = "";
  fiber_place scheduler;
  void* scheduler_fake_stack = nullptr;
  const void* scheduler_stack = nullptr;
  std::size_t scheduler_stack_bytes = 0;
  fiber* current = nullptr;
};

// One per host thread: fibers never move between host threads.
machine& here() {
  static thread_local machine m;
  return m;
}

void enter_fiber_stack([[maybe_unused]] machine& m, [[maybe_unused]] fiber& f) {
#ifdef TROUPE_ASAN_FIBERS
  __sanitizer_finish_switch_fiber(f.fake_stack, &m.scheduler_stack, &m.scheduler_stack_bytes);
#endif
}

// Returns to the scheduler; continues when the fiber is resumed.
void leave(machine& m, fiber& f) {
#ifdef TROUPE_ASAN_FIBERS
  __sanitizer_start_switch_fiber(f.ended ? nullptr : &f.fake_stack, m.scheduler_stack,
                                 m.scheduler_stack_bytes);
#endif
  switch_fiber(f.resumes_at, m.scheduler);
  enter_fiber_stack(m, f);
}

void fiber_main() {
  machine& m = here();
  fiber& f = *m.current;
  enter_fiber_stack(m, f);
  (*m.kernel)();
  if (std::any_of(f.copies.begin(), f.copies.end(), [](const auto& group) { return !group.empty(); }))
    trap("a thread ends with copies that it has not waited for");
  f.ended = true;
  leave(m, f);
}

void resume(machine& m, fiber& f) {
  m.current = &f;
#ifdef TROUPE_ASAN_FIBERS
  __sanitizer_start_switch_fiber(&m.scheduler_fake_stack, f.stack.get(), stack_bytes);
#endif
  switch_fiber(m.scheduler, f.resumes_at);
#ifdef TROUPE_ASAN_FIBERS
  __sanitizer_finish_switch_fiber(m.scheduler_fake_stack, nullptr, nullptr);
#endif
  m.current = nullptr;
}

bool may_run(const machine& m, const fiber& f) {
  switch (f.waiting) {
  case waits_for::nothing:
    return true;
  case waits_for::warp:
    return m.warps[f.warp].round > f.round;
  case waits_for::block:
    return m.block_round > f.round;
  }
  return false;
}

void prepare(machine& m, dimensions grid, dimensions block, dimensions at) {
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (m.fibers.size() < threads)
    m.fibers.resize(threads);
  m.warps.resize((threads + lanes - 1) / lanes);
  for (warp_meeting& warp : m.warps)
    warp.start();
  m.block_round = 0;
  m.block_arrived = 0;
  for (std::size_t t = 0; t < threads; ++t) {
    fiber& f = m.fibers[t];
    if (f.stack == nullptr)
      f.stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
    const auto index = static_cast<unsigned>(t);
    f.where = {{index % block.x, index / block.x % block.y, index / (block.x * block.y)}, at, block, grid};
    f.warp = t / lanes;
    f.lane = t % lanes;
    f.waiting = waits_for::nothing;
    f.ended = false;
    f.fake_stack = nullptr;
    f.copies.assign(1, {});
    start_at(f.resumes_at, f.stack.get(), stack_bytes, fiber_main);
  }
}

void run_block(machine& m, std::size_t threads, std::mt19937& random) {
  std::vector<std::size_t> turns(threads);
  std::iota(turns.begin(), turns.end(), std::size_t{0});
  if (m.threads_order == order::falling)
    std::reverse(turns.begin(), turns.end());
  for (std::size_t left = threads; left > 0;) {
    if (m.threads_order == order::mixed)
      std::shuffle(turns.begin(), turns.end(), random);
    bool moved = false;
    for (const std::size_t t : turns) {
      fiber& f = m.fibers[t];
      if (f.ended || !may_run(m, f))
        continue;
      f.waiting = waits_for::nothing;
      resume(m, f);
      moved = true;
      left -= f.ended ? 1 : 0;
    }
    if (!moved) {
      m.current = nullptr;
      trap("some threads wait at a barrier that others never reach");
    }
  }
}

} // namespace

const thread_place& place() {
  return here().current->where;
}

void set_order(order of_threads) {
  here().threads_order = of_threads;
}

void run(const char* name, dimensions grid, dimensions block, std::size_t shared_bytes,
         const std::function<void()>& kernel) {
  machine& m = here();
  m.name = name;
  m.kernel = &kernel;
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > most_threads || threads % lanes != 0)
    trap("a block has to have 32 to 1024 threads in whole warps");
  if (grid.x > most_blocks_x || grid.y > most_blocks_yz || grid.z > most_blocks_yz)
    trap("a grid has at most 65535 blocks in y and in z, and 2^31 - 1 in x");
  if (shared_bytes > most_shared)
    trap("a block has at most 227 KiB of shared memory");
  std::mt19937 random(12345);
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        prepare(m, grid, block, {x, y, z});
        // A fresh allocation of exactly this size, so that the address sanitizer knows its end.
        m.shared = std::vector<std::byte>(shared_bytes + 128, std::byte{shared_poison});
        void* start = m.shared.data();
        std::size_t room = m.shared.size();
        m.shared_start = static_cast<std::byte*>(std::align(128, shared_bytes, start, room));
        run_block(m, threads, random);
      }
  m.kernel = nullptr;
}

std::byte* shared_memory() {
  return here().shared_start;
}

void block_barrier() {
  machine& m = here();
  fiber& f = *m.current;
  const std::size_t threads = std::size_t{f.where.block_size.x} * f.where.block_size.y * f.where.block_size.z;
  f.round = m.block_round;
  if (++m.block_arrived == threads) {
    m.block_arrived = 0;
    ++m.block_round;
  }
  f.waiting = waits_for::block;
  leave(m, f); // the last thread, too, so that no order is favoured
}

const std::byte* exchange(const char* kind, const void* value, std::size_t num_bytes) {
  machine& m = here();
  fiber& f = *m.current;
  warp_meeting& warp = m.warps[f.warp];
  if (num_bytes > most_value_bytes)
    trap("a value of a collective is too large");
  if (warp.arrived == 0) {
    warp.kind = kind;
    warp.value_bytes = num_bytes;
  } else if (std::strcmp(warp.kind, kind) != 0 || warp.value_bytes != num_bytes) {
    trap("lanes of a warp meet in different collectives");
  }
  std::byte* values = warp.values[warp.round % 2];
  std::memcpy(values + f.lane * num_bytes, value, num_bytes);
  f.round = warp.round;
  if (++warp.arrived == lanes) {
    warp.arrived = 0;
    ++warp.round;
  }
  f.waiting = waits_for::warp;
  leave(m, f);
  return values;
}

void copy_later(void* to, const void* from, std::size_t num_bytes) {
  const auto is_aligned = [&](const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) % num_bytes == 0;
  };
  if (!is_aligned(to) || !is_aligned(from))
    trap("a copy to shared memory is not aligned to its size");
  here().current->copies.back().push_back({to, from, num_bytes});
}

void end_copy_group() {
  here().current->copies.emplace_back();
}

void wait_for_copies(std::size_t left) {
  auto& groups = here().current->copies;
  for (; groups.size() > left + 1; groups.pop_front())
    for (const copy& c : groups.front())
      if (c.from == nullptr)
        std::memset(c.to, 0, c.num_bytes);
      else
        std::memcpy(c.to, c.from, c.num_bytes);
}

void trap(const char* message) {
  const machine& m = here();
  if (m.current != nullptr) {
    const thread_place& at = m.current->where;
    std::fprintf(stderr, "emulated kernel %s: %s (block %u,%u,%u thread %u,%u,%u)\n", m.name, message,
                 at.block.x, at.block.y, at.block.z, at.thread.x, at.thread.y, at.thread.z);
  } else {
    std::fprintf(stderr, "emulated kernel %s: %s\n", m.name, message);
  }
  std::abort();
}

} // namespace troupe::kernels::cuda::emulation
