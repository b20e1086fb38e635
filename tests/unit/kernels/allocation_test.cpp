// After the first call at the largest shape, no op allocates.
#include <atomic>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "kernels/attention.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/gemm.hpp"
#include "kernels/norm.hpp"
#include "kernels/router.hpp"
#include "kernels/sampling.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace {

std::atomic<std::size_t> allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
  ++allocations;
  void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr)
    throw std::bad_alloc{};
  return memory;
}

} // namespace

// Not inlined: GCC would see free() of memory from operator new.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return counted(size, alignof(std::max_align_t));
}

[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}

[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}

[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}

[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace troupe::kernels {

TEST(ops, do_not_allocate_once_warm) {
  constexpr std::size_t rows = 40;
  constexpr std::size_t hidden = 64;
  thread_pool pool({.threads = 3});
  context ctx(pool, detect());
  const auto x = random_floats(rows * hidden, 1);
  const auto w = random_floats(hidden * hidden, 2);
  const auto weights = packed_matrix::pack(packed_format::bf16_pair, view_of(w.data(), hidden, hidden));
  expert_weights expert;
  expert.gate_up = packed_matrix::pack_gate_up(packed_format::f32_panel, view_of(w.data(), hidden, hidden),
                                               view_of(w.data(), hidden, hidden));
  expert.down = packed_matrix::pack(packed_format::f32_panel, view_of(w.data(), hidden, hidden));
  std::vector<float> y(rows * hidden);
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (std::size_t r = 0; r < rows; ++r) {
    from.push_back(reinterpret_cast<const std::byte*>(x.data() + r * hidden));
    to.push_back(reinterpret_cast<std::byte*>(y.data() + r * hidden));
  }
  const expert_segment segment{&expert, from, to};
  kv_cache cache({{{1, 1, hidden, dtype::bf16}}, 16}, 3);
  std::vector<std::uint32_t> slots(rows);
  std::vector<attention_row> attention_rows(rows);
  for (std::uint32_t r = 0; r < rows; ++r) {
    slots[r] = r;
    attention_rows[r].position = r;
  }
  const std::vector<std::uint32_t> blocks{0, 1, 2};
  const attention_sequence sequence{blocks};
  std::vector<std::uint32_t> experts(rows * 2);
  std::vector<float> scores(rows * 2);
  std::vector<sampling_row> sampling(1);
  sampling[0].params.top_p = 0.9F;
  std::vector<sampled_token> sampled(1);
  const auto xv = view_of(x.data(), rows, hidden);
  const auto yv = view_of(y.data(), rows, hidden);
  const auto step = [&] {
    rms_norm(ctx, {.input = xv, .weight = w.data(), .output = yv});
    gemm(ctx, {.input = xv, .weight = &weights, .output = yv});
    expert_ffn(ctx, {{&segment, 1}, dtype::f32});
    kv_write(ctx, {&cache, 0, xv, xv, slots});
    attention(ctx, {.cache = &cache,
                    .query = xv,
                    .heads = 1,
                    .rows = attention_rows,
                    .sequences = {&sequence, 1},
                    .output = yv});
    route(ctx, {.logits = xv, .top_k = 2, .experts = experts, .weights = scores});
    sample(ctx, xv, sampling, sampled);
  };
  // The division of work is random: a few rounds until every thread's scratch has grown.
  for (int i = 0; i < 50; ++i)
    step();
  for (unsigned thread = 0; thread < pool.threads(); ++thread)
    ctx.thread_scratch(thread, std::size_t{1} << 20);
  const std::size_t before = allocations;
  step();
  EXPECT_EQ(allocations, before);
}

} // namespace troupe::kernels
