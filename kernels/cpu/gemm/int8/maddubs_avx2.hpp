// Integer products on AVX2. Included only by isa_kernels.cpp, for AVX2.
//
// Rows use a part of a panel in blocks whose sums fit into registers, while the next part is prefetched into
// L1. Few rows use `gemm/runs_avx2.hpp` if there are enough panels.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/int8/maddubs_loops_avx2.hpp"
#include "kernels/cpu/prefetch/panel_parts.hpp"
#include "kernels/cpu/simd/row_blocks.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t integer_rows = 5; // whose sums registers hold, of both halves

/// Blocks of a part of a panel, 8 KiB: L1 holds it beside the next one and the rows.
constexpr std::size_t part_blocks(packed_format format) {
  return format == packed_format::int8_channel ? 16 : 32;
}

/// Bytes of a panel's first N blocks.
TROUPE_INLINE std::size_t bytes_of_blocks(const quant_panel& panel, std::size_t blocks) {
  return panel.format == packed_format::int8_channel ? blocks * int8_block_bytes : panel.layout.bytes(blocks);
}

/// How K is cut: in multiples of the blocks of a line of group scales, if there are any.
TROUPE_INLINE panel_parts parts_of(const quant_panel& panel, std::size_t k) {
  const bool int8 = panel.format == packed_format::int8_channel;
  return {(int8 ? int8_row_sums(k) : k + block_k - 1) / block_k, part_blocks(panel.format),
          panel.layout.blocks_of_unit()};
}

/// Initialises sums: for int8 with −128 Σ x, for int4 with zero.
template <std::size_t Rows>
TROUPE_INLINE void begin_sums(const std::byte* a, std::size_t a_stride, std::size_t k, packed_format format,
                              float* c) {
  for (std::size_t r = 0; r < Rows; ++r) {
    const vi first = format == packed_format::int8_channel
                         ? _mm256_set1_epi32(row_correction(a + r * a_stride, k))
                         : _mm256_setzero_si256();
    for (std::size_t h = 0; h < halves; ++h)
      store_sums(c + r * 16 + h * 8, first);
  }
}

/// Turns sums into results, in place.
template <std::size_t Rows>
TROUPE_INLINE void finish_sums(const std::byte* a, std::size_t a_stride, std::size_t k,
                               const quant_panel& panel, float* c) {
  for (std::size_t r = 0; r < Rows; ++r) {
    const std::byte* row = a + r * a_stride;
    if (panel.format == packed_format::int8_channel)
      avx2_add_wide(row + int8_row_wide(k), panel.weights, c + r * 16);
    for (std::size_t h = 0; h < halves; ++h)
      store_integer_result(c + r * 16 + h * 8, load_sums(c + r * 16 + h * 8), row, k, panel.scales + h * 8);
  }
}

/// A part of K of one panel, in L1 beside the rows, and the address of the next part.
struct panel_part {
  const quant_panel& panel;
  std::size_t inputs; // K of the whole panel
  std::size_t from;
  std::size_t count;
  const std::byte* next;

  bool is_first() const { return from == 0; }

  bool is_last() const { return from + count >= inputs; }
};

/// Processes a block of rows, and prefetches the next part from byte `skip` on, one line for every `Lines`
/// that it reads.
template <std::size_t Rows, std::size_t Lines>
TROUPE_INLINE void avx2_add_part(const std::byte* a, std::size_t a_stride, const panel_part& part,
                                 std::size_t skip, float* c) {
  const quant_panel& panel = part.panel;
  if (panel.format == packed_format::int8_channel)
    avx2_int8_in_turn<Rows, Lines>(a + int8_row_narrow(part.inputs) + part.from, a_stride,
                                   panel.weights + part.from * 16, part.count, c, {part.next + skip});
  else
    avx2_int4_in_turn<Rows, Lines>(a, a_stride, part.inputs, panel, part.from, part.count / block_k, c,
                                   {part.next + skip});
}

/// Rows with one panel. Each of the first two blocks of rows prefetches half of the next part, so that memory
/// is equally busy in both; a single block prefetches all of it.
/// @param next  the weights of the next product; only prefetched
static void avx2_panel_in_turns(const std::byte* a, std::size_t a_stride, std::size_t rows,
                                const quant_panel& panel, const panel_parts& cut, const std::byte* next,
                                std::size_t k, float* c) {
  cut.for_each([&](std::size_t from, std::size_t end) {
    panel_part part{panel, k, from * block_k, (end - from) * block_k, next};
    if (!part.is_last())
      part.next = panel.weights + bytes_of_blocks(panel, end);
    const std::size_t half = (bytes_of_blocks(panel, end) - bytes_of_blocks(panel, from)) / 2;
    std::size_t block = 0;
    in_row_blocks<integer_rows>(rows, [&]<std::size_t Rows>(std::size_t row) {
      const std::byte* x = a + row * a_stride;
      float* sums = c + row * 16;
      if (part.is_first())
        begin_sums<Rows>(x, a_stride, k, panel.format, sums);
      if (rows == Rows)
        avx2_add_part<Rows, 1>(x, a_stride, part, 0, sums);
      else if (block < 2)
        avx2_add_part<Rows, 2>(x, a_stride, part, block * half, sums);
      else
        avx2_add_part<Rows, 0>(x, a_stride, part, 0, sums);
      ++block;
      if (part.is_last())
        finish_sums<Rows>(x, a_stride, k, panel, sums);
    });
  });
}

static void integer_panels_avx2(const std::byte* a, std::size_t a_stride, std::size_t rows,
                                const quant_panel& first, std::size_t panels, const upcoming_panels& next,
                                std::size_t k, float* c) {
  const panel_parts cut = parts_of(first, k);
  for (std::size_t p = 0; p < panels; ++p) {
    // After the last panel come the weights of the next product, or lines that may not exist.
    const std::byte* behind =
        p + 1 == panels && next.first != nullptr ? next.first : first.next(p + 1).weights;
    avx2_panel_in_turns(a, a_stride, rows, first.next(p), cut, behind, k, c + p * rows * 16);
  }
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
