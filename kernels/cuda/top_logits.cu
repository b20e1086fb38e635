#include "kernels/cuda/top_logits.hpp"

#include <bit>

#include "kernels/cuda/ahead.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned top_threads = 512;
constexpr unsigned top_ahead = 16;

// The least wanted key is found digit by digit, from the highest on: 11, 11 and 10 bits.
constexpr unsigned digit_bits = 11;
constexpr unsigned bins = 1U << digit_bits;
constexpr unsigned bins_a_thread = 8;
constexpr unsigned summing_threads = bins / bins_a_thread;

__device__ bool is_nan(float logit) {
  return (std::bit_cast<std::uint32_t>(logit) & 0x7fffffffU) > 0x7f800000U;
}

// A number that grows with the logit; both zeros are equal. NaN has no order: such a row is given up.
__device__ std::uint32_t ascending(float logit) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0F);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

struct search {
  std::uint32_t prefix; // the digits found so far
  std::uint32_t left;   // number of wanted ones among those with this prefix
  std::uint32_t equal;  // number with this prefix
};

// For a thread: the digit of the last wanted one.
__device__ void take_digit(const std::uint32_t* counts, const std::uint32_t* sums, unsigned shift,
                           search& found) {
  std::uint32_t left = found.left;
  unsigned part = summing_threads - 1;
  std::uint32_t sum = sums[part];
  while (part > 0 && sum < left) {
    left -= sum;
    sum = sums[--part];
  }
  unsigned digit = part * bins_a_thread + bins_a_thread - 1;
  std::uint32_t count = counts[digit];
  while (digit > part * bins_a_thread && count < left) {
    left -= count;
    count = counts[--digit];
  }
  found = {found.prefix | digit << shift, left, count};
}

__global__ void __launch_bounds__(top_threads) top_logits_kernel(top_logits_args args) {
  __shared__ std::uint32_t counts[bins];
  __shared__ std::uint32_t sums[summing_threads];
  __shared__ search found;
  __shared__ std::uint32_t taken;
  __shared__ std::uint32_t threads_with_nan;
  const float* row = args.logits + blockIdx.x * args.vocab;
  if (threadIdx.x == 0) {
    found = {0, static_cast<std::uint32_t>(args.wanted), 0};
    taken = 0;
    threads_with_nan = 0;
  }
  for (unsigned digit = 0; digit < 3; ++digit) {
    const unsigned width = digit == 2 ? digit_bits - 1 : digit_bits;
    const unsigned shift = digit == 0 ? 21 : digit == 1 ? 10 : 0;
    for (unsigned i = threadIdx.x; i < bins; i += top_threads)
      counts[i] = 0;
    block_barrier();
    const std::uint32_t prefix = found.prefix;
    bool has_nan = false;
    for_each_loaded<top_ahead>(row, args.vocab, threadIdx.x, top_threads, [&](std::size_t, float logit) {
      const std::uint32_t key = ascending(logit);
      has_nan = has_nan || is_nan(logit);
      if (digit == 0 || key >> (shift + width) == prefix >> (shift + width))
        count_shared(&counts[key >> shift & ((1U << width) - 1U)], 1);
    });
    if (digit == 0 && has_nan)
      count_shared(&threads_with_nan, 1);
    block_barrier();
    // Counted during the search for digit 0: from here on all threads read the same value.
    if (threads_with_nan != 0) {
      if (threadIdx.x == 0)
        args.counts[blockIdx.x] = 0;
      return;
    }
    if (threadIdx.x < summing_threads) {
      std::uint32_t sum = 0;
      for (unsigned i = 0; i < bins_a_thread; ++i)
        sum += counts[threadIdx.x * bins_a_thread + i];
      sums[threadIdx.x] = sum;
    }
    block_barrier();
    if (threadIdx.x == 0)
      take_digit(counts, sums, shift, found);
    block_barrier();
  }
  const std::size_t above = args.wanted - found.left;
  // Without room for all that equal the last one, none of them is taken.
  const bool takes_equal = above + found.equal <= args.room;
  const std::uint32_t least = found.prefix;
  for_each_loaded<top_ahead>(row, args.vocab, threadIdx.x, top_threads, [&](std::size_t i, float logit) {
    const std::uint32_t key = ascending(logit);
    if (key < least || (key == least && !takes_equal))
      return;
    const std::uint32_t place = count_shared(&taken, 1);
    TROUPE_DEVICE_CHECK(place < args.room);
    if (place < args.room)
      args.entries[blockIdx.x * args.room + place] = {static_cast<std::uint32_t>(i), logit};
  });
  block_barrier();
  if (threadIdx.x == 0)
    args.counts[blockIdx.x] = taken < args.room ? taken : static_cast<std::uint32_t>(args.room);
}

} // namespace

void top_logits(const stream& on, const top_logits_args& args) {
  expect(args.wanted >= 1 && args.wanted <= args.vocab && args.room >= args.wanted,
         "cuda top_logits: none is wanted, or more than there are or there is room for");
  launch("top_logits", on, {.blocks_x = args.rows, .threads = top_threads}, top_logits_kernel, args);
}

} // namespace troupe::kernels::cuda
