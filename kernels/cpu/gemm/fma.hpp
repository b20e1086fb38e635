// Products of a few rows with one panel of 16 columns. Included only by the kernels of each instruction set.
//
// Rows have the layout of "rows for products" (kernel_table.hpp): FP32; for BF16 weights deinterleaved in
// blocks of 32 of K into 16 even and 16 odd values, so that both kernels read them by broadcast from memory.
#pragma once

#include "kernels/cpu/simd/v16.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t half_block = 16; // pairs of k in a block
static_assert(block_k == 2 * half_block);
constexpr std::size_t panel_block_bytes = pair_block_bytes;

// Rows per register block. 6 × 16 columns fill AVX2's registers (12 sums, 2
// weights, 1 broadcast); AVX-512 has twice as many of twice the width.
constexpr std::size_t max_row_block = lanes == 16 ? 12 : 6;
constexpr std::size_t max_sums = 2 * max_row_block; // vectors, of even and odd k

/// Prefetches what is read a few steps later: when four panels take turns of 1 KiB, the processor itself
/// prefetches little.
TROUPE_INLINE void fetch_ahead(const std::byte* line) {
  constexpr std::size_t bytes_ahead = 4096;
  __builtin_prefetch(line + bytes_ahead);
}

/// c += even + odd.
template <std::size_t Rows>
TROUPE_INLINE void add_block(const vf (&even)[Rows][parts], const vf (&odd)[Rows][parts], float* c,
                             std::size_t c_stride) {
#pragma GCC unroll 16
  for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (std::size_t j = 0; j < parts; ++j) {
      float* to = c + r * c_stride + j * lanes;
      store(to, add(load(to), add(even[r][j], odd[r][j])));
    }
}

/// c += even + odd for one block directly from the packed pairs: shift and mask make the FP32 weights.
template <std::size_t Rows, bool Fetch>
TROUPE_INLINE void direct_together(const float* a, std::size_t a_stride, const std::byte* panel, float* c,
                                   std::size_t c_stride) {
  vf even[Rows][parts];
  vf odd[Rows][parts];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (std::size_t j = 0; j < parts; ++j)
      even[r][j] = odd[r][j] = set1(0.0F);
// Not unrolled: any overlap of steps spills.
#pragma GCC unroll 1
  for (std::size_t k = 0; k < half_block; ++k) {
    vf w_even[parts];
    vf w_odd[parts];
    if constexpr (Fetch)
      fetch_ahead(panel + k * 64);
#pragma GCC unroll 16
    for (std::size_t j = 0; j < parts; ++j) {
      const vi pairs = load_pairs(panel + k * 64 + j * lanes * 4);
      w_even[j] = even_of(pairs);
      w_odd[j] = odd_of(pairs);
    }
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r) {
      const vf x_even = set1(a[r * a_stride + k]);
      const vf x_odd = set1(a[r * a_stride + half_block + k]);
#pragma GCC unroll 16
      for (std::size_t j = 0; j < parts; ++j) {
        even[r][j] = fma(x_even, w_even[j], even[r][j]);
        odd[r][j] = fma(x_odd, w_odd[j], odd[r][j]);
      }
    }
  }
  add_block<Rows>(even, odd, c, c_stride);
}

/// The sums of the even or of the odd k of a block: x[r][k] · weights(k, j), 16 of them, from zero.
template <std::size_t Rows, class Weights>
TROUPE_INLINE void sum_half(const float* x, std::size_t x_stride, const Weights& weights,
                            vf (&sum)[Rows][parts]) {
#pragma GCC unroll 16
  for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (std::size_t j = 0; j < parts; ++j)
      sum[r][j] = set1(0.0F);
#pragma GCC unroll 2
  for (std::size_t k = 0; k < half_block; ++k) {
    vf w[parts];
#pragma GCC unroll 16
    for (std::size_t j = 0; j < parts; ++j)
      w[j] = weights(k, j);
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r) {
      const vf value = set1(x[r * x_stride + k]);
#pragma GCC unroll 16
      for (std::size_t j = 0; j < parts; ++j)
        sum[r][j] = fma(value, w[j], sum[r][j]);
    }
  }
}

/// `direct_together` for more rows: the even k, then the odd, each with all columns, so that a row's value is
/// read once for all of them.
template <std::size_t Rows, bool Fetch>
TROUPE_INLINE void direct_in_turn(const float* a, std::size_t a_stride, const std::byte* panel, float* c,
                                  std::size_t c_stride) {
  vf even[Rows][parts];
  vf odd[Rows][parts];
  const auto pairs = [&](std::size_t k, std::size_t j) { return load_pairs(panel + k * 64 + j * lanes * 4); };
  sum_half<Rows>(
      a, a_stride,
      [&](std::size_t k, std::size_t j) {
        if (Fetch && j == 0)
          fetch_ahead(panel + k * 64);
        return even_of(pairs(k, j));
      },
      even);
  sum_half<Rows>(
      a + half_block, a_stride, [&](std::size_t k, std::size_t j) { return odd_of(pairs(k, j)); }, odd);
  add_block<Rows>(even, odd, c, c_stride);
}

template <bool Fetch>
struct direct_kernel {
  template <std::size_t Rows>
  TROUPE_INLINE void run(const float* a, std::size_t a_stride, const std::byte* panel, std::size_t blocks,
                         float* c, std::size_t c_stride) {
    for (std::size_t b = 0; b < blocks; ++b, a += block_k, panel += panel_block_bytes)
      if constexpr (2 * Rows * parts <= max_sums)
        direct_together<Rows, Fetch>(a, a_stride, panel, c, c_stride);
      else
        direct_in_turn<Rows, Fetch>(a, a_stride, panel, c, c_stride);
  }
};

/// FP32 weights: the sums continue those in `c`.
struct f32_kernel {
  template <std::size_t Rows>
  TROUPE_INLINE void run(const float* a, std::size_t a_stride, const float* panel, std::size_t k_count,
                         float* c, std::size_t c_stride) {
    vf sum[Rows][parts];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
      for (std::size_t j = 0; j < parts; ++j)
        sum[r][j] = load(c + r * c_stride + j * lanes);
#pragma GCC unroll 4
    for (std::size_t k = 0; k < k_count; ++k) {
      vf w[parts];
#pragma GCC unroll 16
      for (std::size_t j = 0; j < parts; ++j)
        w[j] = load(panel + k * 16 + j * lanes);
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r) {
        const vf x = set1(a[r * a_stride + k]);
#pragma GCC unroll 16
        for (std::size_t j = 0; j < parts; ++j)
          sum[r][j] = fma(x, w[j], sum[r][j]);
      }
    }
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
      for (std::size_t j = 0; j < parts; ++j)
        store(c + r * c_stride + j * lanes, sum[r][j]);
  }
};

/// Runs a kernel over any number of rows, in register blocks as equal as possible: 8 rows are 4 + 4, not 6 +
/// 2. Without `in_row_blocks`, because BF16 comes here for every block of K and panel; a switch jumps at
/// once.
template <class Kernel, class Panel>
TROUPE_INLINE void over_rows(const float* a, std::size_t a_stride, std::size_t rows, const Panel* panel,
                             std::size_t length, float* c, std::size_t c_stride) {
  std::size_t row_blocks = (rows + max_row_block - 1) / max_row_block;
  for (std::size_t row = 0; row < rows; --row_blocks) {
    const std::size_t count = (rows - row + row_blocks - 1) / row_blocks;
    const float* x = a + row * a_stride;
    float* y = c + row * c_stride;
    switch (count) {
#define TROUPE_ROWS(n)                                                                                       \
  case n:                                                                                                    \
    Kernel::template run<n>(x, a_stride, panel, length, y, c_stride);                                        \
    break;
      TROUPE_ROWS(1)
      TROUPE_ROWS(2)
      TROUPE_ROWS(3)
      TROUPE_ROWS(4)
      TROUPE_ROWS(5)
      TROUPE_ROWS(6)
#if defined(TROUPE_ISA_AVX512)
      TROUPE_ROWS(7)
      TROUPE_ROWS(8)
      TROUPE_ROWS(9)
      TROUPE_ROWS(10)
      TROUPE_ROWS(11)
      TROUPE_ROWS(12)
#endif
#undef TROUPE_ROWS
    default:
      break;
    }
    row += count;
  }
}

#if !defined(TROUPE_ISA_AVX2) // AVX2 has its own (gemm/fma_avx2.hpp)

/// `direct_kernel` on an expanded panel: 16 even rows, then 16 odd rows.
struct expanded_kernel {
  template <std::size_t Rows>
  TROUPE_INLINE void run(const float* a, std::size_t a_stride, const float* panel, std::size_t blocks,
                         float* c, std::size_t c_stride) {
    for (std::size_t b = 0; b < blocks; ++b) {
      vf even[Rows][parts];
      vf odd[Rows][parts];
      const auto even_row = [&](std::size_t k, std::size_t j) { return load(panel + k * 16 + j * lanes); };
      const auto odd_row = [&](std::size_t k, std::size_t j) { return even_row(half_block + k, j); };
      sum_half<Rows>(a, a_stride, even_row, even);
      sum_half<Rows>(a + half_block, a_stride, odd_row, odd);
      add_block<Rows>(even, odd, c, c_stride);
      a += block_k;
      panel += block_k * 16;
    }
  }
};

/// Panels take turns block by block, so that several streams come from memory.
template <class Kernel>
TROUPE_INLINE void over_panels(const panel_product& product) {
  for (std::size_t b = 0; b < product.blocks; ++b)
    for (std::size_t p = 0; p < product.panels; ++p)
      over_rows<Kernel>(product.a + b * block_k, product.a_stride, product.rows,
                        product.panel + p * product.panel_stride + b * panel_block_bytes, 1,
                        product.c + p * product.rows * 16, 16);
}

static void bf16_direct(const panel_product& product) {
  over_panels<direct_kernel<true>>(product);
}

static void bf16_expanded(const float* a, std::size_t a_stride, std::size_t rows, const float* panel,
                          std::size_t blocks, float* c, std::size_t c_stride) {
  over_rows<expanded_kernel>(a, a_stride, rows, panel, blocks, c, c_stride);
}

#endif

static void f32_panel(const float* a, std::size_t a_stride, std::size_t rows, const float* panel,
                      std::size_t k, float* c, std::size_t c_stride) {
  over_rows<f32_kernel>(a, a_stride, rows, panel, k, c, c_stride);
}

static void expand_bf16(const std::byte* panel, std::size_t blocks, float* out) {
  for (std::size_t b = 0; b < blocks; ++b) {
    for (std::size_t k = 0; k < half_block; ++k) {
      fetch_ahead(panel + k * 64);
      for (std::size_t i = k * 16; i < (k + 1) * 16; i += lanes) {
        const vi pairs = load_pairs(panel + i * 4);
        store(out + i, even_of(pairs));
        store(out + half_block * 16 + i, odd_of(pairs));
      }
    }
    panel += panel_block_bytes;
    out += block_k * 16;
  }
}

/// A bf16 row as even and odd FP32 values per block; the end of the last block is zero.
static void pack_bf16_values(const bfloat16* row, std::size_t k, float* out) {
  std::size_t i = 0;
  for (; i + block_k <= k; i += block_k)
    for (std::size_t j = 0; j < half_block; j += lanes) {
      const vi pairs = load_pairs(row + i + 2 * j);
      store(out + i + j, even_of(pairs));
      store(out + i + half_block + j, odd_of(pairs));
    }
  if (i < k)
    for (std::size_t j = 0; j < block_k; ++j)
      out[i + (j % 2) * half_block + j / 2] = i + j < k ? to_float(row[i + j]) : 0.0F;
}

static void pack_row_bf16(const std::byte* row, dtype type, std::size_t k, float* out) {
  if (type == dtype::bf16) {
    pack_bf16_values(reinterpret_cast<const bfloat16*>(row), k, out);
    return;
  }
  const auto* values = reinterpret_cast<const float*>(row);
  for (std::size_t i = 0; i < k; i += block_k) {
    bfloat16 rounded[block_k];
    const std::size_t count = k - i < block_k ? k - i : block_k;
    for_each_16(count, [&](std::size_t j, std::size_t n) {
      store_some(rounded + j, n, load_some(values + i + j, n));
    });
    pack_bf16_values(rounded, count, out + i);
  }
}

static void pack_row_f32(const std::byte* row, dtype type, std::size_t k, float* out) {
  if (type == dtype::f32) {
    std::memcpy(out, row, k * sizeof(float));
    return;
  }
  const auto* values = reinterpret_cast<const bfloat16*>(row);
  for_each_16(k, [&](std::size_t i, std::size_t n) { store_some(out + i, n, load_some(values + i, n)); });
}

/// Place of value `k` in a row for products.
TROUPE_INLINE std::size_t product_index(std::size_t k, dtype type) {
  if (type == dtype::f32)
    return k;
  return k / block_k * block_k + (k % 2) * half_block + k % block_k / 2;
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
