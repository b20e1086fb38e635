// Integer products on AVX2, which multiplies unsigned with signed bytes and adds pairs of them in 16 bits
// (VPMADDUBSW). Included by isa_kernels.cpp only, and there for AVX2 only.
//
// Few rows: four panels are read by turns of 64 of K, straight from the packed bytes, and sums wait in
// memory. Many rows: a panel at a time, which stays in L1 while rows pass.
#pragma once

#include "kernels/cpu/gemm_avx2_kernels.hpp"
#include "kernels/cpu/quant_integer_kernels.hpp"
#include "kernels/cpu/weight_fetch.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t halves = 2;       // of a panel's 16 columns
constexpr std::size_t integer_rows = 4; // whose sums registers hold, of both halves

// So many rows and fewer read four panels side by side, and one after the other: more rows would not find
// them in L1 again.
constexpr std::size_t side_by_side_rows = 8;
// With more int8 rows it pays to look at a panel once before.
constexpr std::size_t few_int8_rows = 24;

/// Four bytes of row `r`, in every lane.
template <std::size_t Rows>
TROUPE_INLINE vi row_bytes(const row_pointers<Rows>& rows, std::size_t r, std::size_t offset) {
  return broadcast_bytes(rows.at(r, offset));
}

/// A sum stays in its register, and what is added to it in the order of the program: integers may be added in
/// any, and the compiler would rather keep many products and spill the sums.
TROUPE_INLINE void keep(vi& sum) {
  __asm__("" : "+x"(sum));
}

/// The sums of `Rows` rows and a panel's 16 columns, in registers while a loop runs.
template <std::size_t Rows>
struct integer_sums {
  vi row[Rows][halves];
};

/// `count` of K, a multiple of 8, of a panel of int8: |w| times x with w's sign stays within 127 · 127, so
/// that pairs fit 16 bits.
/// @param fetch  a line to fetch for each that is read
template <std::size_t Rows>
TROUPE_INLINE void avx2_int8_signs(const std::byte* a, std::size_t a_stride, const std::byte* from,
                                   const std::byte* fetch, std::size_t count, integer_sums<Rows>& out) {
  vi sums[Rows][halves];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < Rows; ++r) {
    sums[r][0] = out.row[r][0];
    sums[r][1] = out.row[r][1];
  }
  row_pointers<Rows> rows(a, a_stride);
  const vi ones = _mm256_set1_epi16(1);
  constexpr std::size_t together = 2;
#pragma GCC unroll 1
  for (std::size_t k = 0; k < count; k += 4 * together) {
#pragma GCC unroll 2
    for (std::size_t i = 0; i < together; ++i) {
      weight_fetcher::fetch_line<1024>(fetch + i * 64, from + i * 64);
      const vi w[halves] = {load_pairs(from + i * 64), load_pairs(from + i * 64 + 32)};
      const vi magnitude[halves] = {_mm256_abs_epi8(w[0]), _mm256_abs_epi8(w[1])};
#pragma GCC unroll 4
      for (std::size_t r = 0; r < Rows; ++r) {
        const vi x = row_bytes<Rows>(rows, r, 4 * i);
#pragma GCC unroll 2
        for (std::size_t h = 0; h < halves; ++h) {
          sums[r][h] = _mm256_add_epi32(
              sums[r][h],
              _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude[h], _mm256_sign_epi8(x, w[h])), ones));
          if constexpr (Rows > 2)
            keep(sums[r][h]);
        }
      }
    }
    rows.advance(4 * together);
    from += 64 * together;
    fetch += 64 * together;
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < Rows; ++r) {
    out.row[r][0] = sums[r][0];
    out.row[r][1] = sums[r][1];
  }
}

/// The same for many rows. VPSIGNB and VPMADDUBSW share a port on some processors, an exclusive or has all of
/// them: with the bits of x turned where w is negative, |w| · (−x − 1) is w · x less |w|, which is the same
/// for every row.
template <std::size_t Rows>
static __attribute__((noinline)) void avx2_int8_turned(const std::byte* a, std::size_t a_stride,
                                                       const std::byte* from, std::size_t count,
                                                       integer_sums<Rows>& out) {
  vi sums[Rows][halves];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < Rows; ++r) {
    sums[r][0] = out.row[r][0];
    sums[r][1] = out.row[r][1];
  }
  row_pointers<Rows> rows(a, a_stride);
  const vi ones = _mm256_set1_epi16(1);
#pragma GCC unroll 1
  for (std::size_t k = 0; k < count; k += 4, from += 64) {
    const vi w[halves] = {load_pairs(from), load_pairs(from + 32)};
    const vi magnitude[halves] = {_mm256_abs_epi8(w[0]), _mm256_abs_epi8(w[1])};
    const vi negative[halves] = {_mm256_cmpgt_epi8(_mm256_setzero_si256(), w[0]),
                                 _mm256_cmpgt_epi8(_mm256_setzero_si256(), w[1])};
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r) {
      const vi x = row_bytes<Rows>(rows, r, 0);
      const vi turned[halves] = {_mm256_xor_si256(x, negative[0]), _mm256_xor_si256(x, negative[1])};
      const vi pairs[halves] = {_mm256_maddubs_epi16(magnitude[0], turned[0]),
                                _mm256_maddubs_epi16(magnitude[1], turned[1])};
      const vi four[halves] = {_mm256_madd_epi16(pairs[0], ones), _mm256_madd_epi16(pairs[1], ones)};
      sums[r][0] = _mm256_add_epi32(sums[r][0], four[0]);
      sums[r][1] = _mm256_add_epi32(sums[r][1], four[1]);
    }
    rows.advance(4);
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < Rows; ++r) {
    out.row[r][0] = sums[r][0];
    out.row[r][1] = sums[r][1];
  }
}

/// Σ |w| over the negative w of each column.
TROUPE_INLINE void avx2_negative_sums(const std::byte* from, std::size_t count, vi (&sums)[halves]) {
  const vi ones = _mm256_set1_epi8(1);
  const vi ones_16 = _mm256_set1_epi16(1);
  sums[0] = sums[1] = _mm256_setzero_si256();
  for (std::size_t k = 0; k < count; k += 4, from += 64)
    for (std::size_t h = 0; h < halves; ++h) {
      const vi w = load_pairs(from + h * 32);
      const vi negative =
          _mm256_sub_epi8(_mm256_setzero_si256(), _mm256_min_epi8(w, _mm256_setzero_si256())); // 127 at most
      sums[h] = _mm256_add_epi32(sums[h], _mm256_madd_epi16(_mm256_maddubs_epi16(negative, ones), ones_16));
    }
}

/// Eight group scales, each in both halves of a lane.
TROUPE_INLINE vi avx2_group_scales(const std::byte* scales) {
  const vi g = load_int8_int(scales);
  return _mm256_or_si256(_mm256_slli_epi32(g, 16), _mm256_and_si256(g, _mm256_set1_epi32(0xffff)));
}

/// A block of 32 of K of a panel of int4. A group's sum is kept in two parts of 16 bits: −8 Σ x of all 32,
/// which takes away what making half bytes unsigned adds, and u · x of 16 of them; and u · x of the other 16.
/// With u = q + 8, every term of the first is at most 8 · 127, done or not: 32 of them stay inside, and so do
/// 16 · 15 · 127. Multiplying both with the group's scale and adding them up is one instruction.
/// @param offsets  −8 Σ x of this block of each row, as far apart as the rows' blocks
/// @param scales   of the two halves, as `avx2_group_scales`
template <std::size_t Rows, bool Fetch>
TROUPE_INLINE void avx2_int4_block(row_pointers<Rows>& rows, const row_pointers<Rows>& offsets,
                                   const std::byte* from, const std::byte* fetch, const vi (&scales)[halves],
                                   integer_sums<Rows>& sums) {
  const vi low_bits = _mm256_set1_epi8(0x0f);
  vi block[Rows][halves];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < Rows; ++r)
    block[r][0] = block[r][1] =
        _mm256_blend_epi16(broadcast_bytes(offsets.at(r, 0)), _mm256_setzero_si256(), 0xaa);
#pragma GCC unroll 1
  for (std::size_t k = 0; k < block_k; k += 8, from += 64) {
    if constexpr (Fetch) {
      weight_fetcher::fetch_line<512>(fetch, from);
      fetch += 64;
    }
    const vi bytes[halves] = {load_pairs(from), load_pairs(from + 32)};
    const vi low[halves] = {_mm256_and_si256(bytes[0], low_bits), _mm256_and_si256(bytes[1], low_bits)};
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r) {
      const vi x = row_bytes<Rows>(rows, r, 0);
#pragma GCC unroll 2
      for (std::size_t h = 0; h < halves; ++h) {
        block[r][h] = _mm256_add_epi16(block[r][h], _mm256_maddubs_epi16(low[h], x));
        keep(block[r][h]);
      }
    }
    const vi high[halves] = {_mm256_and_si256(_mm256_srli_epi16(bytes[0], 4), low_bits),
                             _mm256_and_si256(_mm256_srli_epi16(bytes[1], 4), low_bits)};
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r) {
      const vi x = row_bytes<Rows>(rows, r, 4);
#pragma GCC unroll 2
      for (std::size_t h = 0; h < halves; ++h) {
        block[r][h] = _mm256_add_epi16(block[r][h], _mm256_maddubs_epi16(high[h], x));
        keep(block[r][h]);
      }
    }
    rows.advance(8);
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (std::size_t h = 0; h < halves; ++h)
      sums.row[r][h] = _mm256_add_epi32(sums.row[r][h], _mm256_madd_epi16(block[r][h], scales[h]));
}

/// `blocks` blocks of 32 of K from `k` on of a panel of int4.
/// @param a  the rows, from their beginning on
template <std::size_t Rows, bool Fetch>
TROUPE_INLINE void avx2_int4_blocks(const std::byte* a, std::size_t a_stride, std::size_t inputs,
                                    const quant_panel& panel, const std::byte* fetch, std::size_t k,
                                    std::size_t blocks, integer_sums<Rows>& sums) {
  row_pointers<Rows> rows(a + k, a_stride);
  row_pointers<Rows> offsets(block_offsets(a, inputs) + k / block_k, a_stride);
  const std::byte* from = panel.weights + k / block_k * int4_block_bytes;
  for (std::size_t b = 0; b < blocks; ++b, from += int4_block_bytes) {
    vi scales[halves] = {_mm256_set1_epi16(1), _mm256_set1_epi16(1)};
    if (panel.group_scales != nullptr)
      for (std::size_t h = 0; h < halves; ++h)
        scales[h] = avx2_group_scales(panel.group_scales_of(k / block_k + b) + h * 8);
    avx2_int4_block<Rows, Fetch>(rows, offsets, from, fetch, scales, sums);
    offsets.advance(sizeof(std::int32_t));
    if constexpr (Fetch)
      fetch += int4_block_bytes;
  }
}

template <std::size_t Rows>
static __attribute__((noinline)) void
avx2_int4_many(const std::byte* a, std::size_t a_stride, std::size_t inputs, const quant_panel& panel,
               std::size_t k, std::size_t blocks, integer_sums<Rows>& sums) {
  avx2_int4_blocks<Rows, false>(a, a_stride, inputs, panel, nullptr, k, blocks, sums);
}

template <std::size_t Rows>
TROUPE_INLINE void store_results(float* c, const integer_sums<Rows>& sums, const std::byte* a,
                                 std::size_t a_stride, std::size_t k, const float* scales) {
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t h = 0; h < halves; ++h)
      store_integer_result(c + r * 16 + h * 8, sums.row[r][h], a + r * a_stride, k, scales + h * 8);
}

/// Rows of `Panels` panels side by side, which come from memory.
template <std::size_t Rows, std::size_t Panels>
static void avx2_few_rows(const std::byte* a, std::size_t a_stride, const quant_panel& first,
                          const weight_fetcher& fetcher, std::size_t k, float* c, std::size_t c_stride) {
  const bool int8 = first.format == packed_format::int8_channel;
  const std::size_t bytes = step_bytes(first.format);
  integer_sums<Rows> sums[Panels] = {};
  for (std::size_t b = 0; b < k; b += step_k)
    for (std::size_t p = 0; p < Panels; ++p) {
      const quant_panel panel = first.next(p);
      const std::size_t offset = b / step_k * bytes;
      const std::byte* fetch = fetcher(p, offset);
      const std::size_t blocks = (k - b + block_k - 1) / block_k;
      if (int8)
        avx2_int8_signs<Rows>(a + b, a_stride, panel.weights + offset, fetch, step_k, sums[p]);
      else
        avx2_int4_blocks<Rows, true>(a, a_stride, k, panel, fetch, b,
                                     blocks < step_k / block_k ? blocks : step_k / block_k, sums[p]);
    }
  for (std::size_t p = 0; p < Panels; ++p)
    store_results(c + p * c_stride, sums[p], a, a_stride, k, first.next(p).scales);
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

/// K of a panel that stays in L1 beside the rows that pass it.
constexpr std::size_t chunk_k = 1024;

/// [k, k + count) of K of one panel for rows that are many: sums begin at `negative` or go on where `c` has
/// them as integers; the last ones become results.
template <std::size_t Rows>
static void avx2_many_rows(const std::byte* a, std::size_t a_stride, const quant_panel& panel,
                           const vi (&negative)[halves], std::size_t inputs, std::size_t k, std::size_t count,
                           float* c) {
  integer_sums<Rows> sums;
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t h = 0; h < halves; ++h) {
      sums.row[r][h] = negative[h];
      if (k != 0)
        sums.row[r][h] = _mm256_add_epi32(sums.row[r][h], load_pairs(c + r * 16 + h * 8));
    }
  if (panel.format == packed_format::int8_channel)
    avx2_int8_turned<Rows>(a + k, a_stride, panel.weights + k * 16, count, sums);
  else
    avx2_int4_many<Rows>(a, a_stride, inputs, panel, k, (count + block_k - 1) / block_k, sums);
  if (k + count >= inputs) {
    store_results(c, sums, a, a_stride, inputs, panel.scales);
    return;
  }
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t h = 0; h < halves; ++h)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(c + r * 16 + h * 8), sums.row[r][h]);
}

/// Rows that are many, with one panel. Meanwhile what comes next is fetched.
/// @param next  the panel after it, or null
static void avx2_panel(const std::byte* a, std::size_t a_stride, std::size_t rows, const quant_panel& panel,
                       const std::byte* next, std::size_t k, float* c) {
  const bool int8 = panel.format == packed_format::int8_channel;
  const std::size_t padded = int8 ? int8_row_sums(k) : k;
  const std::size_t line_k = int8 ? 4 : 8; // of K in a line
  for (std::size_t from = 0; from < padded; from += chunk_k) {
    const std::size_t count = padded - from < chunk_k ? padded - from : chunk_k;
    vi negative[halves] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    if (int8)
      avx2_negative_sums(panel.weights + from * 16, count, negative);
    const std::size_t after = from + count;
    const bool last = after >= padded;
    const std::size_t ahead = last || padded - after > chunk_k ? chunk_k : padded - after;
    fetch_in_parts fetch(last ? next : panel.weights + after / line_k * 64,
                         last && next == nullptr ? 0 : (ahead < padded ? ahead : padded) / line_k * 64,
                         (rows + integer_rows - 1) / integer_rows);
    in_row_blocks<integer_rows>(rows, [&]<std::size_t Rows>(std::size_t row) {
      fetch.part();
      avx2_many_rows<Rows>(a + row * a_stride, a_stride, panel, negative, k, from, count, c + row * 16);
    });
  }
}

/// Rows that are few, with as many groups of `Panels` panels as there are from panel `p` on; returns the
/// panel behind them.
template <std::size_t Panels>
static std::size_t avx2_side_by_side(const std::byte* a, std::size_t a_stride, std::size_t rows,
                                     const quant_panel& first, std::size_t p, std::size_t panels,
                                     const upcoming_panels& next, std::size_t k, float* c) {
  const std::size_t c_stride = rows * 16;
  for (; p + Panels <= panels; p += Panels)
    in_row_blocks<integer_rows>(rows, [&]<std::size_t Rows>(std::size_t row) {
      // Fetched once: what follows finds the panels in the cache.
      const weight_fetcher fetcher(first.next(p), Panels, row == 0 ? panels - p : 0, k,
                                   row == 0 ? next : upcoming_panels{});
      avx2_few_rows<Rows, Panels>(a + row * a_stride, a_stride, first.next(p), fetcher, k,
                                  c + p * c_stride + row * 16, c_stride);
    });
  return p;
}

static void integer_panels_avx2(const std::byte* a, std::size_t a_stride, std::size_t rows,
                                const quant_panel& first, std::size_t panels, const upcoming_panels& next,
                                std::size_t k, float* c) {
  std::size_t p = 0;
  if (rows <= side_by_side_rows)
    p = avx2_side_by_side<4>(a, a_stride, rows, first, p, panels, next, k, c);
  if (rows <= (first.format == packed_format::int8_channel ? few_int8_rows : side_by_side_rows))
    p = avx2_side_by_side<1>(a, a_stride, rows, first, p, panels, next, k, c);
  for (; p < panels; ++p)
    avx2_panel(a, a_stride, rows, first.next(p), p + 1 < panels ? first.next(p + 1).weights : next.first, k,
               c + p * rows * 16);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
