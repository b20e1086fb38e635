// Integer products on AVX2. Included by isa_kernels.cpp only, and there for AVX2 only.
//
// Few rows read panels as they come from memory, one after the other, but four side by side where rows of
// int4 are so few that they wait for nothing else. Many rows pass a part of a panel that stays in L1, and
// what comes next is fetched meanwhile.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm_avx2_kernels.hpp"
#include "kernels/cpu/quant_avx2_loops.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t integer_rows = 4; // whose sums registers hold, of both halves

// So many rows and fewer are few: more rows of int8 turn bits, for which a panel is looked at once before.
constexpr std::size_t few_rows = 24;
constexpr std::size_t int4_side_by_side_rows = 4;

template <std::size_t Rows>
TROUPE_INLINE void store_results(float* c, const integer_sums<Rows>& sums, const std::byte* a,
                                 std::size_t a_stride, std::size_t k, const float* scales) {
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t h = 0; h < halves; ++h)
      store_integer_result(c + r * 16 + h * 8, sums.row[r][h], a + r * a_stride, k, scales + h * 8);
}

/// Panels of int4 side by side, by turns of 64 of K.
template <std::size_t Rows, std::size_t Panels>
TROUPE_LOOP void avx2_int4_in_turn(const std::byte* a, std::size_t a_stride, const quant_panel& first,
                                   const weight_fetcher& fetcher, std::size_t k, float* c,
                                   std::size_t c_stride) {
  const std::size_t bytes = step_bytes(first.format);
  integer_sums<Rows> sums[Panels] = {};
  for (std::size_t from = 0; from < k; from += step_k) {
    const std::size_t blocks = ((k - from < step_k ? k - from : step_k) + block_k - 1) / block_k;
    for (std::size_t p = 0; p < Panels; ++p) {
      fetch_in_turn fetch;
      fetch.far = fetcher(p, from / step_k * bytes);
      avx2_int4_packed<Rows>(a, a_stride, k, first.next(p), from, blocks, sums[p], fetch);
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
    in_row_blocks<int4_side_by_side_rows>(rows, [&]<std::size_t Rows>(std::size_t) {
      const weight_fetcher fetcher(first.next(p), Panels, panels - p, k, next);
      avx2_int4_in_turn<Rows, Panels>(a, a_stride, first.next(p), fetcher, k, c + p * c_stride, c_stride);
    });
  return p;
}

/// A stretch of memory that is fetched a part at a time, into L2.
class fetch_in_parts {
 public:
  /// @param count  calls of `part` until everything has been fetched
  fetch_in_parts(const std::byte* from, std::size_t bytes, std::size_t count)
      : at_(from), end_(from + bytes), step_((bytes + 64 * count - 1) / (64 * count) * 64) {}

  void part() {
    const std::byte* end = at_ + step_ < end_ ? at_ + step_ : end_;
    for (; at_ < end; at_ += 64)
      _mm_prefetch(reinterpret_cast<const char*>(at_), _MM_HINT_T1);
  }

 private:
  const std::byte* at_;
  const std::byte* end_;
  std::size_t step_;
};

/// A part of K of one panel that stays in L1 beside the rows that pass it.
struct panel_chunk {
  const quant_panel& panel;
  std::size_t inputs; // K of the whole panel
  std::size_t from;
  std::size_t count;
  vi negative[halves]; // of int8 rows that are many: `avx2_negative_sums`; otherwise zero

  bool is_last() const { return from + count >= inputs; }
};

/// Who passes a chunk: the first of few rows, as it comes from memory, others of them, or some of many.
enum class chunk_rows : std::uint8_t { first_of_few, few, many };

template <std::size_t Rows>
TROUPE_INLINE void avx2_add_chunk(const std::byte* a, std::size_t a_stride, const panel_chunk& chunk,
                                  chunk_rows which, integer_sums<Rows>& sums) {
  const quant_panel& panel = chunk.panel;
  if (panel.format == packed_format::int8_channel) {
    const std::byte* weights = panel.weights + chunk.from * 16;
    if (which == chunk_rows::first_of_few)
      avx2_int8_streamed<Rows>(a + chunk.from, a_stride, weights, chunk.count, sums);
    else if (which == chunk_rows::few)
      avx2_int8_cached<Rows>(a + chunk.from, a_stride, weights, chunk.count, sums);
    else
      avx2_int8_turned<Rows>(a + chunk.from, a_stride, weights, chunk.count, sums);
  } else if (which == chunk_rows::first_of_few) {
    avx2_int4_streamed<Rows>(a, a_stride, chunk.inputs, panel, chunk.from, chunk.count / block_k, sums);
  } else {
    avx2_int4_cached<Rows>(a, a_stride, chunk.inputs, panel, chunk.from, chunk.count / block_k, sums);
  }
}

/// Sums go on where `c` has them as integers; the last chunk's become results.
template <std::size_t Rows>
static void avx2_chunk_rows(const std::byte* a, std::size_t a_stride, const panel_chunk& chunk,
                            chunk_rows which, float* c) {
  integer_sums<Rows> sums;
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t h = 0; h < halves; ++h) {
      sums.row[r][h] = chunk.negative[h];
      if (chunk.from != 0)
        sums.row[r][h] = _mm256_add_epi32(sums.row[r][h], load_pairs(c + r * 16 + h * 8));
    }
  avx2_add_chunk<Rows>(a, a_stride, chunk, which, sums);
  if (chunk.is_last()) {
    store_results(c, sums, a, a_stride, chunk.inputs, chunk.panel.scales);
    return;
  }
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t h = 0; h < halves; ++h)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(c + r * 16 + h * 8), sums.row[r][h]);
}

/// Calls `run(from, count)` for chunks of at most `most` of K of a panel, its padding with it.
template <class Run>
TROUPE_INLINE void in_chunks(packed_format format, std::size_t k, std::size_t most, const Run& run) {
  const std::size_t padded =
      format == packed_format::int8_channel ? int8_row_sums(k) : (k + block_k - 1) / block_k * block_k;
  for (std::size_t from = 0; from < padded; from += most)
    run(from, padded - from < most ? padded - from : most);
}

/// Rows that are few, with one panel as it comes from memory. More rows of int8 than registers hold take
/// turns, so that what the first of them fetched is under way while the others multiply; panels of int4 are
/// shorter.
static void avx2_panel_of_few(const std::byte* a, std::size_t a_stride, std::size_t rows,
                              const quant_panel& panel, std::size_t k, float* c) {
  const bool in_turn = panel.format == packed_format::int8_channel && rows > integer_rows;
  const std::size_t most = in_turn ? 512 : int8_row_sums(k);
  const vi zero = _mm256_setzero_si256();
  in_chunks(panel.format, k, most, [&](std::size_t from, std::size_t count) {
    const panel_chunk chunk{panel, k, from, count, {zero, zero}};
    in_row_blocks<integer_rows>(rows, [&]<std::size_t Rows>(std::size_t row) {
      avx2_chunk_rows<Rows>(a + row * a_stride, a_stride, chunk,
                            row == 0 ? chunk_rows::first_of_few : chunk_rows::few, c + row * 16);
    });
  });
}

/// Rows that are many, with one panel.
/// @param next  the panel after it, fetched meanwhile; or null
static void avx2_panel_of_many(const std::byte* a, std::size_t a_stride, std::size_t rows,
                               const quant_panel& panel, const std::byte* next, std::size_t k, float* c) {
  constexpr std::size_t most = 1024;
  const bool int8 = panel.format == packed_format::int8_channel;
  const std::size_t bytes = int8 ? 16 : 8; // of the panel, for one of K
  in_chunks(panel.format, k, most, [&](std::size_t from, std::size_t count) {
    const vi zero = _mm256_setzero_si256();
    panel_chunk chunk{panel, k, from, count, {zero, zero}};
    if (int8)
      avx2_negative_sums(panel.weights + from * bytes, count, chunk.negative);
    // What comes next is as long, or shorter.
    const std::byte* ahead = chunk.is_last() ? next : panel.weights + (from + count) * bytes;
    fetch_in_parts fetch(ahead, ahead == nullptr ? 0 : (k < most ? k : most) * bytes,
                         (rows + integer_rows - 1) / integer_rows);
    in_row_blocks<integer_rows>(rows, [&]<std::size_t Rows>(std::size_t row) {
      fetch.part();
      avx2_chunk_rows<Rows>(a + row * a_stride, a_stride, chunk, chunk_rows::many, c + row * 16);
    });
  });
}

static void integer_panels_avx2(const std::byte* a, std::size_t a_stride, std::size_t rows,
                                const quant_panel& first, std::size_t panels, const upcoming_panels& next,
                                std::size_t k, float* c) {
  std::size_t p = 0;
  if (first.format != packed_format::int8_channel && rows <= int4_side_by_side_rows) {
    p = avx2_int4_side_by_side<4>(a, a_stride, rows, first, p, panels, next, k, c);
    p = avx2_int4_side_by_side<1>(a, a_stride, rows, first, p, panels, next, k, c);
  }
  for (; p < panels; ++p) {
    const quant_panel panel = first.next(p);
    float* sums = c + p * rows * 16;
    if (rows <= few_rows)
      avx2_panel_of_few(a, a_stride, rows, panel, k, sums);
    else
      avx2_panel_of_many(a, a_stride, rows, panel, p + 1 < panels ? first.next(p + 1).weights : next.first, k,
                         sums);
  }
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
