// AMX's tiles in memory, as documented by Intel, in place of the intrinsics: the kernels of AMX then run on
// every processor with AVX-512, with the bits of a matrix unit (amx_order_test.cpp checks one). Include it
// before them, once in a program.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define TROUPE_EMULATED_TILES

namespace emulated_tiles {

constexpr std::size_t num_tiles = 8;
constexpr std::size_t most_rows = 16;
constexpr std::size_t most_bytes = 64;

struct tile {
  std::size_t rows = 0;
  std::size_t row_bytes = 0;
  std::byte data[most_rows][most_bytes] = {};
};

// No templates of the standard library: a copy compiled with these flags could be linked where any processor
// runs it.
inline thread_local tile tiles[num_tiles];

/// The operand of LDTILECFG: bytes per row from byte 16 on, rows from byte 48 on.
template <class Config>
void load_config(const Config& config) {
  static_assert(sizeof config == 64);
  for (std::size_t i = 0; i < num_tiles; ++i) {
    tiles[i] = {};
    tiles[i].row_bytes = config.column_bytes[i];
    tiles[i].rows = config.rows[i];
  }
}

inline void release() {
  for (tile& t : tiles)
    t = {};
}

inline void zero(std::size_t t) {
  std::memset(tiles[t].data, 0, sizeof tiles[t].data);
}

inline void load(std::size_t t, const void* from, std::size_t stride) {
  zero(t);
  for (std::size_t r = 0; r < tiles[t].rows; ++r)
    std::memcpy(tiles[t].data[r], static_cast<const std::byte*>(from) + r * stride, tiles[t].row_bytes);
}

inline void store(std::size_t t, void* to, std::size_t stride) {
  for (std::size_t r = 0; r < tiles[t].rows; ++r)
    std::memcpy(static_cast<std::byte*>(to) + r * stride, tiles[t].data[r], tiles[t].row_bytes);
}

template <class T>
T value(const tile& from, std::size_t row, std::size_t index) {
  T v;
  std::memcpy(&v, from.data[row] + index * sizeof v, sizeof v);
  return v;
}

/// c += `dot(row of a, column of b)` for every sum, in the type of that.
template <class Dot>
void multiply(tile& c, const tile& a, const Dot& dot) {
  for (std::size_t m = 0; m < c.rows; ++m)
    for (std::size_t n = 0; n < c.row_bytes / 4; ++n) {
      auto sum = dot(m, n, a.row_bytes / 4);
      sum = value<decltype(sum)>(c, m, n) + sum;
      std::memcpy(c.data[m] + n * 4, &sum, 4);
    }
}

inline float bf16(const tile& from, std::size_t row, std::size_t index) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value<std::uint16_t>(from, row, index)) << 16U;
  float v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

/// TDPBF16PS: c + (even + odd), both FMA chains from zero. Under FTZ and DAZ, as kernels are.
inline void multiply_bf16(std::size_t c, std::size_t a, std::size_t b) {
  multiply(tiles[c], tiles[a], [&](std::size_t m, std::size_t n, std::size_t pairs) {
    float even = 0.0F;
    float odd = 0.0F;
    for (std::size_t k = 0; k < pairs; ++k) {
      even = std::fma(bf16(tiles[a], m, 2 * k), bf16(tiles[b], k, 2 * n), even);
      odd = std::fma(bf16(tiles[a], m, 2 * k + 1), bf16(tiles[b], k, 2 * n + 1), odd);
    }
    return even + odd;
  });
}

/// TDPBSSD.
inline void multiply_int8(std::size_t c, std::size_t a, std::size_t b) {
  multiply(tiles[c], tiles[a], [&](std::size_t m, std::size_t n, std::size_t fours) {
    std::int32_t sum = 0;
    for (std::size_t k = 0; k < 4 * fours; ++k)
      sum += value<std::int8_t>(tiles[a], m, k) * value<std::int8_t>(tiles[b], k / 4, 4 * n + k % 4);
    return sum;
  });
}

} // namespace emulated_tiles

#undef _tile_dpbf16ps
#undef _tile_dpbssd
#undef _tile_loadd
#undef _tile_release
#undef _tile_stored
#undef _tile_zero
#define _tile_dpbf16ps(c, a, b) emulated_tiles::multiply_bf16(c, a, b)
#define _tile_dpbssd(c, a, b) emulated_tiles::multiply_int8(c, a, b)
#define _tile_loadd(t, from, stride) emulated_tiles::load(t, from, stride)
#define _tile_release() emulated_tiles::release()
#define _tile_stored(t, to, stride) emulated_tiles::store(t, to, stride)
#define _tile_zero(t) emulated_tiles::zero(t)
#define load_tile_config emulated_tiles::load_config
