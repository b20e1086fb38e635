// Integer products on AVX2. Included by isa_kernels.cpp only, and there for AVX2 only.
//
// Rows whose sums fit registers read panels as they come from memory: int8 one after the other, int4 four
// side by side. More rows pass a part of a panel in blocks of so many, while the next part is fetched into
// L1.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm_avx2_kernels.hpp"
#include "kernels/cpu/quant_avx2_loops.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t integer_rows = 4; // whose sums registers hold, of both halves

template <std::size_t Rows>
TROUPE_INLINE void store_results(float* c, const integer_sums<Rows>& sums, const std::byte* a,
                                 std::size_t a_stride, std::size_t k, const float* scales) {
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t h = 0; h < halves; ++h)
      store_integer_result(c + r * 16 + h * 8, sums.row[r][h], a + r * a_stride, k, scales + h * 8);
}

/// Panels of int4 side by side, by turns of 64 of K.
template <std::size_t Rows, std::size_t Panels>
TROUPE_LOOP void avx2_int4_panels(const std::byte* a, std::size_t a_stride, const quant_panel& first,
                                  const weight_fetcher& fetcher, std::size_t k, float* c,
                                  std::size_t c_stride) {
  const std::size_t bytes = step_bytes(first.format);
  integer_sums<Rows> sums[Panels] = {};
  for (std::size_t from = 0; from < k; from += step_k) {
    const std::size_t blocks = ((k - from < step_k ? k - from : step_k) + block_k - 1) / block_k;
    for (std::size_t p = 0; p < Panels; ++p) {
      fetch_in_turn fetch;
      fetch.far = fetcher(p, from / step_k * bytes);
      avx2_int4_packed<Rows, 2>(a, a_stride, k, first.next(p), from, blocks, sums[p], fetch);
    }
  }
  for (std::size_t p = 0; p < Panels; ++p)
    store_results(c + p * c_stride, sums[p], a, a_stride, k, first.next(p).scales);
}

/// As many groups of `Panels` panels of int4 as there are from panel `p` on. Returns the panel behind them.
template <std::size_t Panels>
static std::size_t avx2_int4_side_by_side(const std::byte* a, std::size_t a_stride, std::size_t rows,
                                          const quant_panel& first, std::size_t p, std::size_t panels,
                                          const upcoming_panels& next, std::size_t k, float* c) {
  const std::size_t c_stride = rows * 16;
  for (; p + Panels <= panels; p += Panels)
    in_row_blocks<integer_rows>(rows, [&]<std::size_t Rows>(std::size_t) {
      const weight_fetcher fetcher(first.next(p), Panels, panels - p, k, next);
      avx2_int4_panels<Rows, Panels>(a, a_stride, first.next(p), fetcher, k, c + p * c_stride, c_stride);
    });
  return p;
}

/// sums += what was cut off of the narrow values of `Rows` rows, times a whole panel.
/// @param ahead  a line to fetch, and those behind it, meanwhile; or null
template <std::size_t Rows>
TROUPE_INLINE void avx2_add_wide_fours(const std::byte* a, std::size_t a_stride, std::size_t k,
                                       const std::byte* weights, const std::byte* ahead,
                                       integer_sums<Rows>& sums) {
  for (std::size_t r = 0; r < Rows; ++r)
    avx2_add_wide(a + r * a_stride + int8_row_wide(k), weights, ahead, sums.row[r]);
}

/// −128 Σ x of each row.
template <std::size_t Rows>
TROUPE_INLINE void begin_int8_sums(const std::byte* a, std::size_t a_stride, std::size_t k,
                                   integer_sums<Rows>& sums) {
  for (std::size_t r = 0; r < Rows; ++r)
    sums.row[r][0] = sums.row[r][1] = _mm256_set1_epi32(-128 * row_sum(a + r * a_stride, k));
}

/// A panel of int8 as it comes from memory.
template <std::size_t Rows>
static void avx2_int8_panel(const std::byte* a, std::size_t a_stride, const quant_panel& panel, std::size_t k,
                            float* c) {
  integer_sums<Rows> sums;
  begin_int8_sums(a, a_stride, k, sums);
  avx2_int8_streamed<Rows>(a + int8_row_narrow(k), a_stride, panel.weights, int8_row_sums(k), sums);
  avx2_add_wide_fours(a, a_stride, k, panel.weights,
                      panel.weights + int8_row_sums(k) * 16 + int8_bytes_ahead<Rows>, sums);
  store_results(c, sums, a, a_stride, k, panel.scales);
}

/// A part of K of one panel, in L1 beside the rows that pass it, and where the next part lies.
struct panel_part {
  const quant_panel& panel;
  std::size_t inputs; // K of the whole panel
  std::size_t from;
  std::size_t count;
  fetch_coming next;

  bool is_int8() const { return panel.format == packed_format::int8_channel; }

  bool is_first() const { return from == 0; }

  bool is_last() const { return from + count >= inputs; }
};

/// @param block  of the rows that pass: each of the first two fetches a half of the next part
template <std::size_t Rows>
TROUPE_INLINE void avx2_add_part(const std::byte* a, std::size_t a_stride, const panel_part& part,
                                 std::size_t block, integer_sums<Rows>& sums) {
  const quant_panel& panel = part.panel;
  fetch_coming next = part.next;
  if (part.is_int8()) {
    const std::byte* weights = panel.weights + part.from * 16;
    const std::byte* narrow = a + int8_row_narrow(part.inputs) + part.from;
    next.next_weights += block * part.count * 8;
    if (block < 2)
      avx2_int8_in_turn<Rows>(narrow, a_stride, weights, part.count, sums, next);
    else
      avx2_int8_cached<Rows>(narrow, a_stride, weights, part.count, sums);
    return;
  }
  const std::size_t blocks = part.count / block_k;
  next.next_weights += block * part.count * 4;
  if (block < 2)
    avx2_int4_in_turn<Rows>(a, a_stride, part.inputs, panel, part.from, blocks, sums, next);
  else
    avx2_int4_cached<Rows>(a, a_stride, part.inputs, panel, part.from, blocks, sums);
}

/// Sums go on where `c` has them as integers; the last part's become results.
template <std::size_t Rows>
static void avx2_part_rows(const std::byte* a, std::size_t a_stride, const panel_part& part,
                           std::size_t block, float* c) {
  integer_sums<Rows> sums = {};
  if (!part.is_first())
    for (std::size_t r = 0; r < Rows; ++r)
      for (std::size_t h = 0; h < halves; ++h)
        sums.row[r][h] = load_pairs(c + r * 16 + h * 8);
  else if (part.is_int8())
    begin_int8_sums(a, a_stride, part.inputs, sums);
  avx2_add_part<Rows>(a, a_stride, part, block, sums);
  if (!part.is_last()) {
    for (std::size_t r = 0; r < Rows; ++r)
      for (std::size_t h = 0; h < halves; ++h)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(c + r * 16 + h * 8), sums.row[r][h]);
    return;
  }
  if (part.is_int8())
    avx2_add_wide_fours(a, a_stride, part.inputs, part.panel.weights, nullptr, sums);
  store_results(c, sums, a, a_stride, part.inputs, part.panel.scales);
}

/// More rows than registers hold sums of, with one panel.
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
    panel_part part{panel, k, from, count, {next.weights, next_scales}};
    if (!part.is_last()) {
      part.next.next_weights = panel.weights + (from + count) * bytes;
      if (panel.group_scales != nullptr)
        part.next.next_scales = panel.group_scales_of((from + count) / block_k);
    }
    std::size_t block = 0;
    in_row_blocks<integer_rows>(rows, [&]<std::size_t Rows>(std::size_t row) {
      avx2_part_rows<Rows>(a + row * a_stride, a_stride, part, block++, c + row * 16);
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
  if (rows <= integer_rows && first.format != packed_format::int8_channel) {
    p = avx2_int4_side_by_side<4>(a, a_stride, rows, first, p, panels, next, k, c);
    p = avx2_int4_side_by_side<1>(a, a_stride, rows, first, p, panels, next, k, c);
  }
  for (; p < panels; ++p) {
    const quant_panel panel = first.next(p);
    float* sums = c + p * rows * 16;
    if (rows > integer_rows)
      avx2_panel_in_turns(a, a_stride, rows, panel,
                          p + 1 < panels ? first.next(p + 1) : panel_behind(first, panels, next), k, sums);
    else
      in_row_blocks<integer_rows>(
          rows, [&]<std::size_t Rows>(std::size_t) { avx2_int8_panel<Rows>(a, a_stride, panel, k, sums); });
  }
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
