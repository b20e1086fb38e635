// Integer products on AVX2. Included by isa_kernels.cpp only, and there for AVX2 only.
//
// Few rows read panels as they come from memory: int8 one after the other, int4 four side by side. More rows
// pass a part of a panel in blocks of as many as registers hold sums of, while the next part is fetched into
// L1.
#pragma once

#include <cstdint>

#include "kernels/cpu/quant_avx2_loops.hpp"
#include "kernels/cpu/row_blocks.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t integer_rows = 5; // whose sums registers hold, of both halves

// More take turns: int4, which computes longer, sooner.
constexpr std::size_t few_rows_int8 = 4;
constexpr std::size_t few_rows_int4 = 2;

/// Sums begin: of int8 with −128 Σ x, of int4 with nothing.
template <std::size_t Rows>
TROUPE_INLINE void begin_sums(const std::byte* a, std::size_t a_stride, std::size_t k, packed_format format,
                              float* c) {
  for (std::size_t r = 0; r < Rows; ++r) {
    const vi first = format == packed_format::int8_channel
                         ? _mm256_set1_epi32(-128 * row_sum(a + r * a_stride, k))
                         : _mm256_setzero_si256();
    for (std::size_t h = 0; h < halves; ++h)
      store_sums(c + r * 16 + h * 8, first);
  }
}

/// Sums become results.
/// @param c      where; may be `sums`
/// @param fetch  `weights` of it is called for each four of K that was cut
template <std::size_t Rows, class Fetch>
TROUPE_INLINE void finish_sums(const std::byte* a, std::size_t a_stride, std::size_t k,
                               const quant_panel& panel, float* sums, float* c, Fetch fetch) {
  for (std::size_t r = 0; r < Rows; ++r) {
    const std::byte* row = a + r * a_stride;
    if (panel.format == packed_format::int8_channel)
      avx2_add_wide(row + int8_row_wide(k), panel.weights, sums + r * 16, fetch);
    for (std::size_t h = 0; h < halves; ++h)
      store_integer_result(c + r * 16 + h * 8, load_sums(sums + r * 16 + h * 8), row, k,
                           panel.scales + h * 8);
  }
}

/// Panels of int4 side by side, by turns of 64 of K.
template <std::size_t Rows, std::size_t Panels>
TROUPE_LOOP void avx2_int4_panels(const std::byte* a, std::size_t a_stride, const quant_panel& first,
                                  const weight_fetcher& fetcher, std::size_t k, float* c) {
  const std::size_t bytes = step_bytes(first.format);
  alignas(64) float sums[Panels][Rows * 16];
  for (std::size_t p = 0; p < Panels; ++p)
    begin_sums<Rows>(a, a_stride, k, first.format, sums[p]);
  for (std::size_t from = 0; from < k; from += step_k) {
    const std::size_t blocks = ((k - from < step_k ? k - from : step_k) + block_k - 1) / block_k;
    for (std::size_t p = 0; p < Panels; ++p) {
      fetch_in_turn fetch;
      fetch.far = fetcher(p, from / step_k * bytes);
      avx2_int4_packed<Rows, 2>(a, a_stride, k, first.next(p), from, blocks, sums[p], fetch);
    }
  }
  for (std::size_t p = 0; p < Panels; ++p)
    finish_sums<Rows>(a, a_stride, k, first.next(p), sums[p], c + p * Rows * 16, fetch_nothing{});
}

/// As many groups of `Panels` panels of int4 as there are from panel `p` on. Returns the panel behind them.
template <std::size_t Panels>
static std::size_t avx2_int4_side_by_side(const std::byte* a, std::size_t a_stride, std::size_t rows,
                                          const quant_panel& first, std::size_t p, std::size_t panels,
                                          const upcoming_panels& next, std::size_t k, float* c) {
  for (; p + Panels <= panels; p += Panels)
    in_row_blocks<few_rows_int4>(rows, [&]<std::size_t Rows>(std::size_t) {
      const weight_fetcher fetcher(first.next(p), Panels, panels - p, k, next);
      avx2_int4_panels<Rows, Panels>(a, a_stride, first.next(p), fetcher, k, c + p * Rows * 16);
    });
  return p;
}

/// A panel of int8 as it comes from memory.
template <std::size_t Rows>
static void avx2_int8_panel(const std::byte* a, std::size_t a_stride, const quant_panel& panel, std::size_t k,
                            float* c) {
  begin_sums<Rows>(a, a_stride, k, panel.format, c);
  avx2_int8_streamed<Rows>(a + int8_row_narrow(k), a_stride, panel.weights, int8_row_sums(k), c);
  finish_sums<Rows>(a, a_stride, k, panel, c, c,
                    fetch_on{panel.weights + int8_row_sums(k) * 16 + int8_bytes_ahead<Rows>});
}

/// A part of K of one panel, in L1 beside the rows that pass it, and where the next part lies.
struct panel_part {
  const quant_panel& panel;
  std::size_t inputs; // K of the whole panel
  std::size_t from;
  std::size_t count;
  const std::byte* next_weights;
  const std::byte* next_scales;

  bool is_first() const { return from == 0; }

  bool is_last() const { return from + count >= inputs; }
};

/// A block of rows passes, and fetches the next part from `skip` of K on, one line for `Lines` that it reads.
template <std::size_t Rows, std::size_t Lines>
TROUPE_INLINE void avx2_add_part(const std::byte* a, std::size_t a_stride, const panel_part& part,
                                 std::size_t skip, float* c) {
  const quant_panel& panel = part.panel;
  if (panel.format == packed_format::int8_channel)
    avx2_int8_in_turn<Rows, Lines>(a + int8_row_narrow(part.inputs) + part.from, a_stride,
                                   panel.weights + part.from * 16, part.count, c,
                                   {part.next_weights + skip * 16, part.next_scales});
  else
    avx2_int4_in_turn<Rows, Lines>(a, a_stride, part.inputs, panel, part.from, part.count / block_k, c,
                                   {part.next_weights + skip * 8, part.next_scales});
}

/// Rows with one panel. The first two blocks of rows fetch a half of the next part each, so that memory is as
/// busy in the second as in the first; a single block fetches all of it.
/// @param next  the panel to multiply after it; nothing but fetched
static void avx2_panel_in_turns(const std::byte* a, std::size_t a_stride, std::size_t rows,
                                const quant_panel& panel, const quant_panel& next, std::size_t k, float* c) {
  const bool int8 = panel.format == packed_format::int8_channel;
  const std::size_t bytes = int8 ? 16 : 8; // for one of K
  // 8 or 16 KiB: int4 waits for memory less, and shorter parts of it were slower.
  const std::size_t most = int8 ? 512 : 2048;
  const std::size_t padded = int8 ? int8_row_sums(k) : (k + block_k - 1) / block_k * block_k;
  for (std::size_t from = 0; from < padded; from += most) {
    const std::size_t count = padded - from < most ? padded - from : most;
    const std::byte* next_scales = next.group_scales == nullptr ? next.weights : next.group_scales;
    panel_part part{panel, k, from, count, next.weights, next_scales};
    if (!part.is_last()) {
      part.next_weights = panel.weights + (from + count) * bytes;
      if (panel.group_scales != nullptr)
        part.next_scales = panel.group_scales_of((from + count) / block_k);
    }
    std::size_t block = 0;
    in_row_blocks<integer_rows>(rows, [&]<std::size_t Rows>(std::size_t row) {
      const std::byte* x = a + row * a_stride;
      float* sums = c + row * 16;
      if (part.is_first())
        begin_sums<Rows>(x, a_stride, k, panel.format, sums);
      if (rows == Rows)
        avx2_add_part<Rows, 1>(x, a_stride, part, 0, sums);
      else if (block < 2)
        avx2_add_part<Rows, 2>(x, a_stride, part, block * count / 2, sums);
      else
        avx2_add_part<Rows, 0>(x, a_stride, part, 0, sums);
      ++block;
      if (part.is_last())
        finish_sums<Rows>(x, a_stride, k, panel, sums, sums, fetch_nothing{});
    });
  }
}

/// The panel behind the last of `panels`: as many bytes further on, or the first of what is multiplied next.
TROUPE_INLINE quant_panel panel_behind(const quant_panel& first, std::size_t panels,
                                       const upcoming_panels& next) {
  quant_panel behind = first.next(panels);
  if (next.first != nullptr) {
    behind.weights = next.first;
    if (first.group_scales != nullptr)
      behind.group_scales = next.first + (first.group_scales - first.weights);
  }
  return behind;
}

static void integer_panels_avx2(const std::byte* a, std::size_t a_stride, std::size_t rows,
                                const quant_panel& first, std::size_t panels, const upcoming_panels& next,
                                std::size_t k, float* c) {
  std::size_t p = 0;
  const bool int8 = first.format == packed_format::int8_channel;
  const std::size_t few_rows = int8 ? few_rows_int8 : few_rows_int4;
  if (rows <= few_rows && !int8) {
    p = avx2_int4_side_by_side<4>(a, a_stride, rows, first, p, panels, next, k, c);
    p = avx2_int4_side_by_side<1>(a, a_stride, rows, first, p, panels, next, k, c);
  }
  for (; p < panels; ++p) {
    const quant_panel panel = first.next(p);
    float* sums = c + p * rows * 16;
    if (rows > few_rows)
      avx2_panel_in_turns(a, a_stride, rows, panel,
                          p + 1 < panels ? first.next(p + 1) : panel_behind(first, panels, next), k, sums);
    else
      in_row_blocks<few_rows_int8>(
          rows, [&]<std::size_t Rows>(std::size_t) { avx2_int8_panel<Rows>(a, a_stride, panel, k, sums); });
  }
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
