// The order in which an AMX unit adds, compared with Intel's documentation, which every other instruction set
// here follows. The common numerics class of all x86 processors depends on this, so the test runs the
// hardware instructions, not our kernels. Skipped without AMX.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "kernels/bfloat16.hpp"
#include "kernels/thread_pool.hpp"
#include "tests/unit/kernels/order_values.hpp"

#if defined(__x86_64__)
#  include <cpuid.h>
#  include <immintrin.h>
#  include <sys/syscall.h>
#  include <unistd.h>
#endif

// Tiles per kind of values and number of rows; decision 0004 was measured with more.
#if !defined(TROUPE_AMX_TILES)
#  define TROUPE_AMX_TILES 12
#endif

namespace troupe::kernels {

namespace {

constexpr std::size_t columns = 16;
constexpr std::size_t pairs = 16;

template <class Element>
struct tiles {
  std::array<float, 16 * columns> c{};
  std::array<Element, 16 * pairs*(4 / sizeof(Element))> a{};
  std::array<Element, 16 * columns*(4 / sizeof(Element))> b{};
};

#if defined(__x86_64__)

// Leaf 7: AMX-BF16 is EDX bit 22, AMX-TILE 24, AMX-INT8 25. Linux grants the tile registers on request.
bool ask_for_amx() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & (1U << 22)) == 0 || (d & (1U << 24)) == 0
      || (d & (1U << 25)) == 0)
    return false;
  constexpr long arch_req_xcomp_perm = 0x1023;
  constexpr long xtile_data = 18;
  return ::syscall(SYS_arch_prctl, arch_req_xcomp_perm, xtile_data) == 0;
}

struct alignas(64) tile_config {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t column_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

tile_config config_for(std::size_t rows, std::size_t depth) {
  tile_config config;
  config.column_bytes[0] = 64;
  config.rows[0] = static_cast<std::uint8_t>(rows);
  config.column_bytes[1] = static_cast<std::uint16_t>(depth * 4);
  config.rows[1] = static_cast<std::uint8_t>(rows);
  config.column_bytes[2] = 64;
  config.rows[2] = static_cast<std::uint8_t>(depth);
  return config;
}

__attribute__((target("amx-tile,amx-bf16"))) void multiply_bf16(tiles<bfloat16>& t, std::size_t rows,
                                                                std::size_t depth) {
  const tile_config config = config_for(rows, depth);
  // GCC's intrinsics do not declare that they read memory.
  __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
  _tile_loadd(0, t.c.data(), 64);
  _tile_loadd(1, t.a.data(), 64);
  _tile_loadd(2, t.b.data(), 64);
  _tile_dpbf16ps(0, 1, 2);
  _tile_stored(0, t.c.data(), 64);
  _tile_release();
}

__attribute__((target("amx-tile,amx-int8"))) void multiply_int8(tiles<std::int8_t>& t, std::size_t rows,
                                                                std::size_t depth) {
  const tile_config config = config_for(rows, depth);
  // GCC's intrinsics do not declare that they read memory.
  __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
  _tile_loadd(0, t.c.data(), 64);
  _tile_loadd(1, t.a.data(), 64);
  _tile_loadd(2, t.b.data(), 64);
  _tile_dpbssd(0, 1, 2);
  _tile_stored(0, t.c.data(), 64);
  _tile_release();
}

#else

bool ask_for_amx() {
  return false;
}

void multiply_bf16(tiles<bfloat16>&, std::size_t, std::size_t) {}

void multiply_int8(tiles<std::int8_t>&, std::size_t, std::size_t) {}

#endif

// TDPBF16PS as documented, with std::fma, under FTZ and DAZ.
void documented(tiles<bfloat16>& t, std::size_t rows, std::size_t depth) {
  for (std::size_t m = 0; m < rows; ++m)
    for (std::size_t n = 0; n < columns; ++n) {
      float even = 0.0F;
      float odd = 0.0F;
      for (std::size_t k = 0; k < depth; ++k) {
        const bfloat16* x = &t.a[(m * pairs + k) * 2];
        const bfloat16* w = &t.b[(k * columns + n) * 2];
        even = std::fma(to_float(x[0]), to_float(w[0]), even);
        odd = std::fma(to_float(x[1]), to_float(w[1]), odd);
      }
      t.c[m * columns + n] += even + odd;
    }
}

} // namespace

TEST(amx_order, bf16_adds_as_documented) {
  if (!ask_for_amx())
    GTEST_SKIP() << "no AMX here";
  for (const order::kind k : order::all_kinds) {
    order::generator source(k);
    std::size_t sums = 0;
    std::size_t other_bits = 0;
    std::size_t other_nan = 0;
    for (std::size_t rows = 1; rows <= 16; ++rows)
      for (std::size_t depth : {std::size_t{1}, std::size_t{5}, pairs})
        for (std::size_t i = 0; i < TROUPE_AMX_TILES; ++i) {
          tiles<bfloat16> silicon;
          source.fill(silicon.a);
          source.fill(silicon.b);
          source.fill(silicon.c);
          // C is used twice: sums kept in a tile, and sums stored and loaded again, must continue alike.
          tiles<bfloat16> reference = silicon;
          {
            const float_mode_guard mode;
            for (int step = 0; step < 3; ++step)
              documented(reference, rows, depth);
          }
          for (int step = 0; step < 3; ++step)
            multiply_bf16(silicon, rows, depth);
          for (std::size_t j = 0; j < rows * columns; ++j) {
            ++sums;
            if (std::bit_cast<std::uint32_t>(silicon.c[j]) == std::bit_cast<std::uint32_t>(reference.c[j]))
              continue;
            if (std::isnan(silicon.c[j]) && std::isnan(reference.c[j]))
              ++other_nan;
            else if (++other_bits <= 3)
              ADD_FAILURE() << order::name_of(k) << ", " << rows << " rows, " << depth << " pairs: AMX "
                            << std::hexfloat << silicon.c[j] << ", documented " << reference.c[j];
          }
        }
    EXPECT_EQ(other_bits, 0U) << order::name_of(k);
    // The processor chooses which of two NaN survives; that one does is defined.
    if (k != order::kind::not_numbers)
      EXPECT_EQ(other_nan, 0U) << order::name_of(k);
    std::printf("%-16s %9zu sums of 3 tile products: %zu other bits, %zu other NaN bits\n", order::name_of(k),
                sums, other_bits, other_nan);
  }
}

TEST(amx_order, int8_is_exact) {
  if (!ask_for_amx())
    GTEST_SKIP() << "no AMX here";
  std::mt19937 engine(9);
  for (std::size_t rows = 1; rows <= 16; ++rows)
    for (std::size_t i = 0; i < TROUPE_AMX_TILES; ++i) {
      tiles<std::int8_t> t;
      for (auto& x : t.a)
        x = static_cast<std::int8_t>(engine());
      for (auto& x : t.b)
        x = static_cast<std::int8_t>(engine());
      std::array<std::int32_t, 16 * columns> expected{};
      for (auto& x : expected)
        x = static_cast<std::int32_t>(engine() % 100000);
      std::memcpy(t.c.data(), expected.data(), sizeof expected);
      for (std::size_t m = 0; m < rows; ++m)
        for (std::size_t n = 0; n < columns; ++n)
          for (std::size_t k = 0; k < 64; ++k)
            expected[m * columns + n] += t.a[m * 64 + k] * t.b[(k / 4 * columns + n) * 4 + k % 4];
      multiply_int8(t, rows, pairs);
      ASSERT_EQ(std::memcmp(t.c.data(), expected.data(), sizeof expected), 0) << rows << " rows";
    }
}

} // namespace troupe::kernels
