// Without a division, AVX-512's silu (kernels/cpu/simd/math.hpp) must give the quotient's bits: tested for
// every number, since silu has one argument.
#include <algorithm>
#include <bit>
#include <span>

#include <gtest/gtest.h>

#include "kernels/elementwise.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

TEST(silu, has_the_quotients_bits_for_every_number) {
  const std::span<const isa> sets = supported_isas();
  if (std::find(sets.begin(), sets.end(), isa::avx512) == sets.end())
    GTEST_SKIP() << "this machine has no AVX-512";
  thread_pool pool({.threads = 2});
  context dividing(pool, isa::avx2);
  context tested(pool, isa::avx512);
  // From just below 2⁻¹⁶ to just above 80, both signs.
  constexpr std::uint32_t first = 0x37800000 - 4096;
  constexpr std::uint32_t last = 0x42a00000 + 4096;
  constexpr std::size_t rows = 64;
  constexpr std::size_t columns = 1024;
  std::vector<float> x(rows * columns);
  std::vector<float> want(x.size());
  std::vector<float> got(x.size());
  for (const std::uint32_t sign : {0U, 0x80000000U})
    for (std::uint64_t begin = first; begin < last; begin += x.size()) {
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = std::bit_cast<float>(sign | static_cast<std::uint32_t>(begin + i));
      activate(dividing, activation::silu, view_of(x.data(), rows, columns),
               view_of(want.data(), rows, columns));
      activate(tested, activation::silu, view_of(x.data(), rows, columns),
               view_of(got.data(), rows, columns));
      ASSERT_TRUE(same_bits(want, got)) << "of 65,536 numbers from " << x.front() << " on";
    }
}

} // namespace troupe::kernels
