// BF16 products on AVX2. Included only by isa_kernels.cpp, for AVX2.
//
// Rows use a part of a panel in blocks, while the next part is prefetched into L1: half of it by each of the
// first two blocks, so that memory is equally busy in both. Either each block widens the weights for itself,
// or the first one stores them as FP32 for the others, which then have fewer instructions. Few rows use
// `gemm/runs_avx2.hpp`.
#pragma once

#include "kernels/cpu/gemm/fma_loops_avx2.hpp"
#include "kernels/cpu/simd/row_blocks.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

// Rows of a block with widened weights: with five or six, the bursts of stores between two blocks of K cost
// more than the saved loads of weights.
constexpr std::size_t widened_rows = 4;

constexpr std::size_t bf16_part_blocks = 8;

/// `Rows` rows with widened weights in L1.
template <std::size_t Rows>
TROUPE_LOOP void avx2_widened(const float* a, std::size_t a_stride, const float* panel, std::size_t blocks,
                              float* c, std::size_t c_stride) {
  avx2_blocks<Rows>(a, a_stride, blocks, c, c_stride, [&](std::size_t b, bool odd) {
    return [half = widened_half(panel, b, odd)](std::size_t k, std::size_t j) {
      return widened_weights(half, k, j);
    };
  });
}

static void bf16_expanded_avx2(const float* a, std::size_t a_stride, std::size_t rows, const float* panel,
                               std::size_t blocks, float* c, std::size_t c_stride) {
  in_row_blocks<widened_rows>(rows, [&]<std::size_t Rows>(std::size_t row) {
    avx2_widened<Rows>(a + row * a_stride, a_stride, panel, blocks, c + row * c_stride, c_stride);
  });
}

/// Blocks of K of one panel, in L1 beside the rows, and the address of the next part.
struct bf16_part {
  const std::byte* from;
  std::size_t blocks;
  const std::byte* next;

  /// The `i`-th half of the next part.
  const std::byte* next_half(std::size_t i) const { return next + i * blocks * panel_block_bytes / 2; }
};

/// Rows in blocks of up to six, each of which widens the weights itself. A single block prefetches all of the
/// next part.
static void avx2_add_packed_part(const panel_product& product, const float* a, const bf16_part& part,
                                 float* c) {
  std::size_t block = 0;
  in_row_blocks<max_row_block>(product.rows, [&]<std::size_t Rows>(std::size_t row) {
    const float* x = a + row * product.a_stride;
    float* sums = c + row * 16;
    if (product.rows == Rows)
      avx2_packed_part<Rows, 1>(x, product.a_stride, part.from, part.blocks, sums, {part.next});
    else if (block < 2)
      avx2_packed_part<Rows, 2>(x, product.a_stride, part.from, part.blocks, sums, {part.next_half(block)});
    else
      avx2_packed_part<Rows, 0>(x, product.a_stride, part.from, part.blocks, sums, {});
    ++block;
  });
}

/// Rows in blocks of four; the first one widens the weights for the others.
/// @param wide  [part.blocks] blocks, used during the call
static void avx2_add_widened_part(const panel_product& product, const float* a, const bf16_part& part,
                                  float* wide, float* c) {
  std::size_t block = 0;
  in_row_blocks<widened_rows>(product.rows, [&]<std::size_t Rows>(std::size_t row) {
    const float* x = a + row * product.a_stride;
    float* sums = c + row * 16;
    if (block == 0)
      avx2_widening_part<Rows>(x, product.a_stride, part.from, part.blocks, sums, wide, {part.next_half(0)});
    else if (block == 1)
      avx2_widened_part<Rows, 2>(x, product.a_stride, wide, part.blocks, sums, {part.next_half(1)});
    else
      avx2_widened_part<Rows, 0>(x, product.a_stride, wide, part.blocks, sums, {});
    ++block;
  });
}

/// One panel after the other. Calls `add(a, part, c)` for its parts of 8 KiB each: they stay in L1 beside the
/// next part and a block of rows.
template <class Add>
TROUPE_INLINE void avx2_over_parts(const panel_product& product, const Add& add) {
  for (std::size_t p = 0; p < product.panels; ++p) {
    const std::byte* panel = product.panel + p * product.panel_stride;
    const bool last = p + 1 == product.panels && product.next.first != nullptr;
    const std::byte* behind = last ? product.next.first : panel + product.panel_stride;
    for (std::size_t b = 0; b < product.blocks; b += bf16_part_blocks) {
      bf16_part part{panel + b * panel_block_bytes, product.blocks - b, behind};
      if (part.blocks > bf16_part_blocks) {
        part.blocks = bf16_part_blocks;
        part.next = part.from + bf16_part_blocks * panel_block_bytes;
      }
      const float* a = product.a + b * block_k;
      float* c = product.c + p * product.rows * 16;
      add(a, part, c);
    }
  }
}

static void bf16_direct_avx2(const panel_product& product) {
  avx2_over_parts(product, [&](const float* a, const bf16_part& part, float* c) {
    avx2_add_packed_part(product, a, part, c);
  });
}

static void bf16_widened_avx2(const panel_product& product) {
  alignas(64) float wide[bf16_part_blocks * block_k * 16];
  avx2_over_parts(product, [&](const float* a, const bf16_part& part, float* c) {
    avx2_add_widened_part(product, a, part, wide, c);
  });
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
