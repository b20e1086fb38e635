// The order and rounding of AVX-512's dot product of BF16 pairs in hardware, which fit the order of gemm.hpp
// (kernels/cpu/gemm/dots_vdpbf16.hpp). Skipped where it is missing.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include <gtest/gtest.h>

#include "kernels/bfloat16.hpp"
#include "kernels/isa.hpp"
#include "kernels/thread_pool.hpp"
#include "tests/unit/kernels/order_values.hpp"

#if defined(__x86_64__)
#  include <immintrin.h>
#endif

namespace troupe::kernels {

namespace {

constexpr std::size_t lanes = 16;
constexpr int dots_of_each_kind = 20'000;

struct operands {
  alignas(64) std::array<float, lanes> sums{};
  alignas(64) std::array<bfloat16, 2 * lanes> x{};
  alignas(64) std::array<bfloat16, 2 * lanes> w{};
};

#if defined(__x86_64__)

__attribute__((target("avx512f,avx512bf16"))) void dot(operands& o) {
  const __m512 sums = _mm512_load_ps(o.sums.data());
  const auto x = reinterpret_cast<__m512bh>(_mm512_load_si512(o.x.data()));
  const auto w = reinterpret_cast<__m512bh>(_mm512_load_si512(o.w.data()));
  _mm512_store_ps(o.sums.data(), _mm512_dpbf16_ps(sums, x, w));
}

#else

void dot(operands&) {}

#endif

// Upper halves first, each product fused with its addition, under FTZ and DAZ.
void expected(operands& o) {
  for (std::size_t i = 0; i < lanes; ++i) {
    o.sums[i] = std::fma(to_float(o.x[2 * i + 1]), to_float(o.w[2 * i + 1]), o.sums[i]);
    o.sums[i] = std::fma(to_float(o.x[2 * i]), to_float(o.w[2 * i]), o.sums[i]);
  }
}

} // namespace

TEST(dot_order, upper_halves_are_added_first_and_each_product_is_fused) {
  if (!is_supported(isa::avx512_bf16))
    GTEST_SKIP() << "no dot products of BF16 here";
  for (const order::kind k : order::all_kinds) {
    order::generator source(k);
    std::size_t other_bits = 0;
    std::size_t other_nan = 0;
    for (int i = 0; i < dots_of_each_kind; ++i) {
      operands silicon;
      source.fill(silicon.sums);
      source.fill(silicon.x);
      source.fill(silicon.w);
      operands reference = silicon;
      {
        const float_mode_guard mode;
        for (int step = 0; step < 3; ++step)
          expected(reference);
      }
      for (int step = 0; step < 3; ++step) // in any mode: it has its own
        dot(silicon);
      for (std::size_t j = 0; j < lanes; ++j) {
        if (std::bit_cast<std::uint32_t>(silicon.sums[j]) == std::bit_cast<std::uint32_t>(reference.sums[j]))
          continue;
        if (std::isnan(silicon.sums[j]) && std::isnan(reference.sums[j]))
          ++other_nan;
        else if (++other_bits <= 3)
          ADD_FAILURE() << order::name_of(k) << ": " << std::hexfloat << silicon.sums[j] << ", expected "
                        << reference.sums[j];
      }
    }
    EXPECT_EQ(other_bits, 0U) << order::name_of(k);
    if (k != order::kind::not_numbers)
      EXPECT_EQ(other_nan, 0U) << order::name_of(k);
    std::printf("%-16s %9zu sums of 3 dot products: %zu other bits, %zu other NaN bits\n", order::name_of(k),
                dots_of_each_kind * lanes, other_bits, other_nan);
  }
}

} // namespace troupe::kernels
