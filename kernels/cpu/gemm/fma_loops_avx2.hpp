// The loops of BF16 products on AVX2. Included only by isa_kernels.cpp, for AVX2.
//
// Sixteen registers hold the sums of up to six rows and 16 columns for the even or for the odd k of a block,
// not for both: there is a pass for each, and the even sums wait in memory meanwhile.
#pragma once

#include "kernels/cpu/gemm/fma.hpp"
#include "kernels/cpu/prefetch/fetch_avx2.hpp"
#include "kernels/cpu/simd/row_pointers.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

// Not inlined: in one function with other loops, the compiler does not keep the sums in registers.
#define TROUPE_LOOP static __attribute__((noinline))

/// sum += x · w. In place, by an explicit instruction: otherwise the compiler writes some sums over x or w,
/// and copies registers for it.
TROUPE_INLINE void add_product(vf& sum, vf x, vf w) {
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(x), "x"(w));
}

/// sum += x[r][k] · weights(k, j) for `Count` k from `k` on. Advances `rows` past them.
template <std::size_t Rows, std::size_t Step, std::size_t Count, class Weights>
TROUPE_INLINE void avx2_sum_some(row_pointers<Rows>& rows, const Weights& weights, std::size_t k,
                                 vf (&sum)[Rows][parts]) {
#pragma GCC unroll 4
  for (std::size_t i = 0; i < Count; ++i) {
    const vf w[parts] = {weights(k + i, 0), weights(k + i, 1)};
#pragma GCC unroll 6
    for (std::size_t r = 0; r < Rows; ++r) {
      const vf x = set1(*reinterpret_cast<const float*>(rows.at(r, i * Step * sizeof(float))));
      add_product(sum[r][0], x, w[0]);
      add_product(sum[r][1], x, w[1]);
    }
  }
  rows.advance(Count * Step * sizeof(float));
}

/// The sums of the even or of the odd k of a block: x[r][k] · weights(k, j), 16 of them, from zero. Advances
/// `rows` past them.
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

/// Even sums wait in memory while the odd ones are computed.
template <std::size_t Rows>
TROUPE_INLINE void store_half(const vf (&sum)[Rows][parts], float (&to)[Rows][parts][lanes]) {
#pragma GCC unroll 6
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t j = 0; j < parts; ++j)
      store(to[r][j], sum[r][j]);
  __asm__("" : : "r"(&to) : "memory");
}

/// c += even + odd for `blocks` blocks.
/// @param half  half(b, odd) returns the weights of half a block as `avx2_sum_half` takes them
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

/// Weights of half a packed block, pairs of k: shift or mask makes them FP32.
TROUPE_INLINE vf packed_weights(const std::byte* block, bool odd, std::size_t k, std::size_t j) {
  const vi pairs = load_pairs(block + k * 64 + j * lanes * 4);
  return odd ? odd_of(pairs) : even_of(pairs);
}

/// Address of half a widened block: 16 even rows of 16, then 16 odd ones.
template <class Float>
TROUPE_INLINE Float* widened_half(Float* panel, std::size_t b, bool odd) {
  return panel + (2 * b + odd) * half_block * 16;
}

TROUPE_INLINE vf widened_weights(const float* half, std::size_t k, std::size_t j) {
  return load(half + k * 16 + j * lanes);
}

/// Prefetches the next part equally in the passes over odd and even k of a block: otherwise memory is idle in
/// one and late in the other.
template <class Fetch>
TROUPE_INLINE void fetch_evenly(Fetch& fetch, bool odd, std::size_t k) {
  if (k % 2 == odd)
    fetch.weights(nullptr, k / 2);
}

/// A packed part of a panel.
template <std::size_t Rows, class Fetch>
TROUPE_INLINE void avx2_packed(const float* a, std::size_t a_stride, const std::byte* from,
                               std::size_t blocks, float* c, Fetch& fetch) {
  avx2_blocks<Rows>(a, a_stride, blocks, c, 16, [&](std::size_t b, bool odd) {
    return [&fetch, block = from + b * panel_block_bytes, odd](std::size_t k, std::size_t j) {
      if (j == 0)
        fetch_evenly(fetch, odd, k);
      return packed_weights(block, odd, k, j);
    };
  });
}

/// The same for a part in L1, while the next part is prefetched.
template <std::size_t Rows, std::size_t Lines>
TROUPE_LOOP void avx2_packed_part(const float* a, std::size_t a_stride, const std::byte* from,
                                  std::size_t blocks, float* c, fetch_coming<Lines> fetch) {
  avx2_packed<Rows>(a, a_stride, from, blocks, c, fetch);
}

/// The same; also stores the weights as FP32, which costs little beside the products.
/// @param wide  [blocks] widened blocks
template <std::size_t Rows>
TROUPE_LOOP void avx2_widening_part(const float* a, std::size_t a_stride, const std::byte* from,
                                    std::size_t blocks, float* c, float* wide, fetch_coming<2> fetch) {
  avx2_blocks<Rows>(a, a_stride, blocks, c, 16, [&](std::size_t b, bool odd) {
    return [&fetch, block = from + b * panel_block_bytes, to = widened_half(wide, b, odd),
            odd](std::size_t k, std::size_t j) {
      if (j == 0)
        fetch_evenly(fetch, odd, k);
      const vf w = packed_weights(block, odd, k, j);
      store(to + k * 16 + j * lanes, w);
      return w;
    };
  });
}

/// The same with weights that another block of rows has widened.
template <std::size_t Rows, std::size_t Lines>
TROUPE_LOOP void avx2_widened_part(const float* a, std::size_t a_stride, const float* wide,
                                   std::size_t blocks, float* c, fetch_coming<Lines> fetch) {
  avx2_blocks<Rows>(a, a_stride, blocks, c, 16, [&](std::size_t b, bool odd) {
    return [&fetch, half = widened_half(wide, b, odd), odd](std::size_t k, std::size_t j) {
      if (j == 0)
        fetch_evenly(fetch, odd, k);
      return widened_weights(half, k, j);
    };
  });
}

/// One block of packed pairs and up to two rows or panels: the even and the odd k together.
/// @param c  of each panel
template <std::size_t Rows, std::size_t Panels>
TROUPE_INLINE void avx2_together(const float* a, std::size_t a_stride, const std::byte* const (&from)[Panels],
                                 float* const (&c)[Panels], run_fetch& fetch) {
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
      fetch.weights(from[p], k * Panels + p);
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
      float* to = c[i / Rows] + i % Rows * 16 + j * lanes;
      store(to, add(load(to), add(even[i][j], odd[i][j])));
    }
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
