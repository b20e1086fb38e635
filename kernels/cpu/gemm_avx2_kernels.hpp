// BF16 products on AVX2. Included by isa_kernels.cpp only, and there for AVX2 only.
//
// Sixteen registers hold the sums of up to six rows and 16 columns for the even or for the odd k of a block,
// not for both: a pass over either, and the even sums wait in memory meanwhile.
//
// So many rows read four panels side by side, as they come from memory. More rows pass a part of a panel in
// blocks of five, while the next part is fetched into L1: each of the first two blocks fetches a half of it,
// so that memory is as busy in the second as in the first.
#pragma once

#include "kernels/cpu/gemm_kernels.hpp"
#include "kernels/cpu/row_blocks.hpp"
#include "kernels/cpu/row_pointers.hpp"
#include "kernels/cpu/weight_fetch.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

// A loop that is a function of its own: among others the compiler finds no registers for its sums.
#define TROUPE_LOOP static __attribute__((noinline))

TROUPE_INLINE void fetch_line(const std::byte* line) {
  _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T0);
}

/// sum += x[r][k] · weights(k, j) for `Count` k from `k` on. Leaves `rows` behind them.
template <std::size_t Rows, std::size_t Step, std::size_t Count, class Weights>
TROUPE_INLINE void avx2_sum_some(row_pointers<Rows>& rows, const Weights& weights, std::size_t k,
                                 vf (&sum)[Rows][parts]) {
#pragma GCC unroll 4
  for (std::size_t i = 0; i < Count; ++i) {
    const vf w[parts] = {weights(k + i, 0), weights(k + i, 1)};
#pragma GCC unroll 6
    for (std::size_t r = 0; r < Rows; ++r) {
      const vf x = set1(*reinterpret_cast<const float*>(rows.at(r, i * Step * sizeof(float))));
      sum[r][0] = fma(x, w[0], sum[r][0]);
      sum[r][1] = fma(x, w[1], sum[r][1]);
    }
  }
  rows.advance(Count * Step * sizeof(float));
}

/// The sums of the even or of the odd k of a block: x[r][k] · weights(k, j), 16 of them, from zero. Leaves
/// `rows` behind them.
template <std::size_t Rows, class Weights>
TROUPE_INLINE void avx2_sum_half(row_pointers<Rows>& rows, const Weights& weights, vf (&sum)[Rows][parts]) {
  constexpr std::size_t together = 4;
#pragma GCC unroll 6
  for (std::size_t r = 0; r < Rows; ++r)
    sum[r][0] = sum[r][1] = set1(0.0F);
#pragma GCC unroll 1
  for (std::size_t k = 0; k < half_block; k += together)
    avx2_sum_some<Rows, 1, together>(rows, weights, k, sum);
}

/// Even sums wait in memory while the odd ones are made.
template <std::size_t Rows>
TROUPE_INLINE void store_half(const vf (&sum)[Rows][parts], float (&to)[Rows][parts][lanes]) {
#pragma GCC unroll 6
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t j = 0; j < parts; ++j)
      store(to[r][j], sum[r][j]);
  __asm__("" : : "r"(&to) : "memory");
}

/// c += even + odd for `blocks` blocks.
/// @param half  half(b, odd) gives the weights of half a block as `avx2_sum_half` takes them
template <std::size_t Rows, class Half>
TROUPE_INLINE void avx2_blocks(const float* a, std::size_t a_stride, std::size_t blocks, float* c,
                               std::size_t c_stride, const Half& half) {
  row_pointers<Rows> rows(a, a_stride * sizeof(float));
  for (std::size_t b = 0; b < blocks; ++b) {
    alignas(32) float even[Rows][parts][lanes];
    {
      vf sum[Rows][parts];
      avx2_sum_half<Rows>(rows, half(b, false), sum);
      store_half<Rows>(sum, even);
    }
    vf odd[Rows][parts];
    avx2_sum_half<Rows>(rows, half(b, true), odd);
#pragma GCC unroll 6
    for (std::size_t r = 0; r < Rows; ++r)
      for (std::size_t j = 0; j < parts; ++j) {
        float* to = c + r * c_stride + j * lanes;
        store(to, add(load(to), add(load(even[r][j]), odd[r][j])));
      }
  }
}

/// Widened weights: 16 even rows of 16, then 16 odd ones. Blocks of six rows were slower than of five.
static void bf16_expanded_avx2(const float* a, std::size_t a_stride, std::size_t rows, const float* panel,
                               std::size_t blocks, float* c, std::size_t c_stride) {
  in_row_blocks<5>(rows, [&]<std::size_t Rows>(std::size_t row) {
    avx2_blocks<Rows>(
        a + row * a_stride, a_stride, blocks, c + row * c_stride, c_stride, [&](std::size_t b, bool odd) {
          const float* from = panel + (2 * b + odd) * half_block * 16;
          return [from](std::size_t k, std::size_t j) { return load(from + k * 16 + j * lanes); };
        });
  });
}

/// One block of packed pairs: shift and mask make the FP32 weights. Up to two rows or panels: the even and
/// the odd k together.
/// @param fetch  a line to fetch for each that is read, of each panel
template <std::size_t Rows, std::size_t Panels>
TROUPE_INLINE void avx2_together(const float* a, std::size_t a_stride, const std::byte* const (&from)[Panels],
                                 const std::byte* const (&fetch)[Panels], float* c) {
  vf even[Rows * Panels][parts];
  vf odd[Rows * Panels][parts];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < Rows * Panels; ++i)
    even[i][0] = even[i][1] = odd[i][0] = odd[i][1] = set1(0.0F);
#pragma GCC unroll 2
  for (std::size_t k = 0; k < half_block; ++k) {
    vf x_even[Rows];
    vf x_odd[Rows];
#pragma GCC unroll 2
    for (std::size_t r = 0; r < Rows; ++r) {
      x_even[r] = set1(a[r * a_stride + k]);
      x_odd[r] = set1(a[r * a_stride + half_block + k]);
    }
#pragma GCC unroll 2
    for (std::size_t p = 0; p < Panels; ++p) {
      fetch_line(fetch[p] + k * 64);
#pragma GCC unroll 2
      for (std::size_t j = 0; j < parts; ++j) {
        const vi pairs = load_pairs(from[p] + k * 64 + j * lanes * 4);
        const vf w_even = even_of(pairs);
        const vf w_odd = odd_of(pairs);
#pragma GCC unroll 2
        for (std::size_t r = 0; r < Rows; ++r) {
          even[p * Rows + r][j] = fma(x_even[r], w_even, even[p * Rows + r][j]);
          odd[p * Rows + r][j] = fma(x_odd[r], w_odd, odd[p * Rows + r][j]);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < Rows * Panels; ++i)
#pragma GCC unroll 2
    for (std::size_t j = 0; j < parts; ++j) {
      float* to = c + i * 16 + j * lanes;
      store(to, add(load(to), add(even[i][j], odd[i][j])));
    }
}

template <std::size_t Rows>
TROUPE_INLINE void avx2_in_turn(const float* a, std::size_t a_stride, const std::byte* from,
                                const std::byte* fetch, float* c) {
  avx2_blocks<Rows>(a, a_stride, 1, c, 16, [&](std::size_t, bool odd) {
    return [from, fetch, odd](std::size_t k, std::size_t j) {
      if (!odd && j == 0)
        fetch_line(fetch + k * 64);
      const vi pairs = load_pairs(from + k * 64 + j * lanes * 4);
      return odd ? odd_of(pairs) : even_of(pairs);
    };
  });
}

/// All `Rows` rows of a product, with panels as they come from memory.
template <std::size_t Rows>
static void avx2_direct_few(const panel_product& product) {
  constexpr std::size_t streams = 4;
  const std::size_t bytes = product.blocks * panel_block_bytes;
  constexpr std::size_t c_stride = Rows * 16;
  for (std::size_t first = 0; first < product.panels; first += streams) {
    const std::size_t count = product.panels - first < streams ? product.panels - first : streams;
    const std::byte* panel = product.panel + first * product.panel_stride;
    const weight_fetcher fetcher(panel, product.panel_stride, bytes, count, product.panels - first,
                                 product.next);
    float* c = product.c + first * c_stride;
    for (std::size_t b = 0; b < product.blocks; ++b) {
      const std::size_t offset = b * panel_block_bytes;
      const float* x = product.a + b * block_k;
      const auto from = [&](std::size_t p) { return panel + p * product.panel_stride + offset; };
      const auto ahead = [&](std::size_t p) { return fetcher(p, offset); };
      std::size_t p = 0;
      // A block of one row is all there is: the sums of two panels lie side by side.
      if constexpr (Rows == 1)
        for (; p + 2 <= count; p += 2)
          avx2_together<1, 2>(x, 0, {from(p), from(p + 1)}, {ahead(p), ahead(p + 1)}, c + p * c_stride);
      for (; p < count; ++p) {
        if constexpr (Rows <= 2)
          avx2_together<Rows, 1>(x, product.a_stride, {from(p)}, {ahead(p)}, c + p * c_stride);
        else
          avx2_in_turn<Rows>(x, product.a_stride, from(p), ahead(p), c + p * c_stride);
      }
    }
  }
}

/// A part of a panel that is in L1.
/// @param next  with `Fetch`, where to fetch from: a line for two that are read
template <std::size_t Rows, bool Fetch>
TROUPE_LOOP void avx2_direct_part(const float* a, std::size_t a_stride, const std::byte* from,
                                  std::size_t blocks, float* c, const std::byte* next) {
  avx2_blocks<Rows>(a, a_stride, blocks, c, 16, [&](std::size_t b, bool odd) {
    return [&, block = from + b * panel_block_bytes, odd](std::size_t k, std::size_t j) {
      if (Fetch && !odd && j == 0 && k % 2 != 0) {
        fetch_line(next);
        next += 64;
      }
      const vi pairs = load_pairs(block + k * 64 + j * lanes * 4);
      return odd ? odd_of(pairs) : even_of(pairs);
    };
  });
}

/// Rows that are many, one panel after the other.
static void avx2_direct_many(const panel_product& product) {
  constexpr std::size_t part_blocks = 8; // 8 KiB: beside the next part and the rows' values in L1
  for (std::size_t p = 0; p < product.panels; ++p) {
    const std::byte* panel = product.panel + p * product.panel_stride;
    const bool last = p + 1 == product.panels && product.next.first != nullptr;
    const std::byte* behind = last ? product.next.first : panel + product.panel_stride;
    for (std::size_t b = 0; b < product.blocks; b += part_blocks) {
      const std::size_t count = product.blocks - b < part_blocks ? product.blocks - b : part_blocks;
      const std::byte* from = panel + b * panel_block_bytes;
      const std::byte* next = b + count < product.blocks ? from + count * panel_block_bytes : behind;
      std::size_t half = 0;
      in_row_blocks<5>(product.rows, [&]<std::size_t Rows>(std::size_t row) {
        const float* x = product.a + row * product.a_stride + b * block_k;
        float* c = product.c + (p * product.rows + row) * 16;
        if (half < 2)
          avx2_direct_part<Rows, true>(x, product.a_stride, from, count, c,
                                       next + half * count * panel_block_bytes / 2);
        else
          avx2_direct_part<Rows, false>(x, product.a_stride, from, count, c, nullptr);
        ++half;
      });
    }
  }
}

static void bf16_direct_avx2(const panel_product& product) {
  if (product.rows > max_row_block)
    avx2_direct_many(product);
  else
    in_row_blocks<max_row_block>(product.rows,
                                 [&]<std::size_t Rows>(std::size_t) { avx2_direct_few<Rows>(product); });
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
