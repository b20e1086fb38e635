// Products of BF16 on AVX-512's dot products of pairs (VDPBF16PS). Included only by avx512_bf16_kernels.cpp.
//
// A lane adds the product of the upper halves of two pairs to its sum, then that of the lower ones; each step
// is fused, rounded to nearest even and flushed if denormal (measured in
// tests/unit/kernels/dot_order_test.cpp). These are two steps of the order of gemm.hpp if a pair holds two
// even or two odd k, the earlier in the upper half. Rows are packed this way (`row_layout::bf16_dots`). Of a
// packed panel, two vectors with (k, k + 1) and (k + 2, k + 3) are rearranged with four cheap operations.
#pragma once

#include <type_traits>

#include "kernels/cpu/gemm/fma.hpp"
#include "kernels/cpu/prefetch/panel_runs.hpp"
#include "kernels/cpu/rows/row_kernels.hpp"
#include "kernels/cpu/simd/int_simd.hpp"
#include "kernels/cpu/simd/row_blocks.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

// Rows of a register block: sums of even and of odd k, and two weights.
constexpr std::size_t dot_rows = 12;
constexpr std::size_t dot_part_bytes = 1024;

// More rows use two reordered panels at a time, so that values are broadcast half as often; each in parts,
// together 16 KiB of L1.
constexpr std::size_t dot_pair_rows = 6;
constexpr std::size_t dot_chunk_blocks = 8;

constexpr std::size_t vector_bytes = 64;
constexpr std::size_t dots_of_half = half_block / 2; // of the even or of the odd k of a block

/// Pairs (k, k + 2) and (k + 1, k + 3), the first of each in the upper half, from pairs (k, k + 1) and (k +
/// 2, k + 3) with the first in the lower.
TROUPE_INLINE vi even_dots(vi first, vi second) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, second, _mm512_slli_epi32(first, 16));
}

TROUPE_INLINE vi odd_dots(vi first, vi second) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(second, 16), first);
}

/// The same for four rows of 16 integers, k to k + 3.
/// @param stride  bytes between rows
TROUPE_INLINE void int8_dots(const std::byte* rows, std::size_t stride, vi& even, vi& odd) {
  const auto bits = [&](std::size_t k) { return lane_bits(load_int8(rows + k * stride)); };
  even = _mm512_or_si512(bits(0), _mm512_srli_epi32(bits(2), 16));
  odd = _mm512_or_si512(bits(1), _mm512_srli_epi32(bits(3), 16));
}

/// A row's pair in all columns.
TROUPE_INLINE vi broadcast_dots(const void* pair) {
  std::int32_t bits;
  __builtin_memcpy(&bits, pair, sizeof bits);
  return _mm512_set1_epi32(bits);
}

TROUPE_INLINE vf dot(vf sum, vi weights, vi values) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(weights), reinterpret_cast<__m512bh>(values));
}

/// The weights of a packed block.
struct packed_dots {
  const std::byte* block;

  inline __attribute__((always_inline)) void at(std::size_t /*panel*/, std::size_t i, vi& even,
                                                vi& odd) const {
    const vi first = load_pairs(block + 2 * i * vector_bytes);
    const vi second = load_pairs(block + (2 * i + 1) * vector_bytes);
    even = even_dots(first, second);
    odd = odd_dots(first, second);
  }
};

/// The weights of an ordered block: 8 vectors of even k, 8 of odd; for two panels, the distance in bytes.
struct ordered_dots {
  const std::byte* block;
  std::size_t stride = 0;

  inline __attribute__((always_inline)) void at(std::size_t panel, std::size_t i, vi& even, vi& odd) const {
    const std::byte* from = block + panel * stride + i * vector_bytes;
    even = load_pairs(from);
    odd = load_pairs(from + dots_of_half * vector_bytes);
  }
};

/// A block of rows for dot products.
struct row_dots {
  const bfloat16* block;
  std::size_t stride; // elements between rows

  inline __attribute__((always_inline)) vi even(std::size_t r, std::size_t i) const {
    return broadcast_dots(block + r * stride + 2 * i);
  }

  inline __attribute__((always_inline)) vi odd(std::size_t r, std::size_t i) const {
    return broadcast_dots(block + r * stride + half_block + 2 * i);
  }
};

/// Uses the columns of an ordered block as rows.
struct column_dots {
  const std::byte* block;

  inline __attribute__((always_inline)) vi even(std::size_t r, std::size_t i) const {
    return broadcast_dots(block + i * vector_bytes + r * 4);
  }

  inline __attribute__((always_inline)) vi odd(std::size_t r, std::size_t i) const {
    return even(r, dots_of_half + i);
  }
};

struct no_fetch {
  void operator()(std::size_t) const {}
};

/// Sums of `Rows` rows with one block of 32 of K of `Panels` panels: `finish(panel, r, even + odd)`.
/// `fetch(i)` is called for each two vectors of weights.
template <std::size_t Rows, std::size_t Panels = 1, class Values, class Weights, class Finish,
          class Fetch = no_fetch>
TROUPE_INLINE void dot_block(const Values& values, const Weights& weights, const Finish& finish,
                             const Fetch& fetch = {}) {
  vf even[Panels][Rows];
  vf odd[Panels][Rows];
#pragma GCC unroll 2
  for (std::size_t p = 0; p < Panels; ++p)
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r)
      even[p][r] = odd[p][r] = set1(0.0F);
#pragma GCC unroll 2
  for (std::size_t i = 0; i < dots_of_half; ++i) {
    fetch(i);
    vi w_even[Panels];
    vi w_odd[Panels];
#pragma GCC unroll 2
    for (std::size_t p = 0; p < Panels; ++p)
      weights.at(p, i, w_even[p], w_odd[p]);
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r) {
      vi x_even = values.even(r, i);
      vi x_odd = values.odd(r, i);
      if constexpr (Panels > 1)
        __asm__("" : "+v"(x_even), "+v"(x_odd)); // broadcast once, not once for each panel
      // One value with both panels, then the other, as written: in a loop over panels the compiler finds an
      // order that is 6 % slower.
      even[0][r] = dot(even[0][r], w_even[0], x_even);
      if constexpr (Panels > 1)
        even[1][r] = dot(even[1][r], w_even[1], x_even);
      odd[0][r] = dot(odd[0][r], w_odd[0], x_odd);
      if constexpr (Panels > 1)
        odd[1][r] = dot(odd[1][r], w_odd[1], x_odd);
    }
  }
#pragma GCC unroll 2
  for (std::size_t p = 0; p < Panels; ++p)
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r)
      finish(p, r, add(even[p][r], odd[p][r]));
}

/// c[r][0 … 15] += sum.
struct add_to_rows {
  float* c;
  std::size_t panel_stride = 0; // floats

  inline __attribute__((always_inline)) void operator()(std::size_t panel, std::size_t r, vf sum) const {
    float* to = c + panel * panel_stride + r * 16;
    store(to, add(load(to), sum));
  }
};

/// Stores two vectors of pairs as vector `i` of either half of an ordered block.
TROUPE_INLINE void store_dots(vi first, vi second, std::byte* block, std::size_t i) {
  _mm512_store_si512(block + i * vector_bytes, even_dots(first, second));
  _mm512_store_si512(block + (dots_of_half + i) * vector_bytes, odd_dots(first, second));
}

/// Reorders blocks of a packed panel.
static void order_dots(const std::byte* panel, std::size_t blocks, std::byte* out) {
  for (std::size_t b = 0; b < blocks; ++b, panel += panel_block_bytes, out += panel_block_bytes)
    for (std::size_t i = 0; i < dots_of_half; ++i)
      store_dots(load_pairs(panel + 2 * i * vector_bytes), load_pairs(panel + (2 * i + 1) * vector_bytes),
                 out, i);
}

/// The blocks of a packed panel, one after the other.
class packed_blocks {
 public:
  static constexpr std::size_t bytes = panel_block_bytes; // of a block

  /// Bytes of a panel before its first block.
  static constexpr std::size_t header_bytes(std::size_t /*blocks*/) { return 0; }

  /// Starts at block `first` of a panel of `blocks`.
  packed_blocks(const std::byte* panel, std::size_t /*blocks*/, std::size_t first)
      : block_(panel + first * bytes) {}

  /// The next block.
  const std::byte* block() const { return block_; }

  /// Multiplies the next block, like `dot_block`; `fetch(line)` is called for each of its lines, in order.
  template <std::size_t Rows, class Values, class Finish, class Fetch>
  inline __attribute__((always_inline)) void multiply(const Values& values, const Finish& finish,
                                                      const Fetch& fetch) {
    dot_block<Rows>(values, packed_dots{block_}, finish, [&](std::size_t i) {
      fetch(2 * i);
      fetch(2 * i + 1);
    });
    block_ += bytes;
  }

  /// Reorders `count` blocks.
  void order(std::size_t count, std::byte* out) {
    order_dots(block_, count, out);
    block_ += count * bytes;
  }

 private:
  const std::byte* block_;
};

/// `Rows` rows and a packed panel, with a prefetch distance that reaches into the following panel.
template <class Blocks, std::size_t Rows>
TROUPE_INLINE void dot_panel(const dot_product& product, std::size_t row, const std::byte* panel, float* c) {
  constexpr std::size_t bytes_ahead = 4096;
  const bfloat16* x = product.a + row * product.a_stride;
  Blocks blocks(panel, product.blocks, 0);
  for (std::size_t b = 0; b < product.blocks; ++b, x += block_k) {
    const std::byte* ahead = blocks.block() + bytes_ahead;
    blocks.template multiply<Rows>(row_dots{x, product.a_stride}, add_to_rows{c + row * 16},
                                   [&](std::size_t line) { fetch_line(ahead + line * vector_bytes); });
  }
}

/// All `Rows` rows of a product in runs.
template <class Blocks, std::size_t Rows>
static void dot_runs(const dot_product& product) {
  const std::size_t header = Blocks::header_bytes(product.blocks);
  upcoming_panels next = product.next;
  if (next.first != nullptr)
    next.first += header;
  const run_panels runs{product.panel + header,
                        product.run_stride,
                        product.panel_stride,
                        product.panels,
                        product.blocks,
                        Blocks::bytes,
                        next};
  const auto sums = [&](std::size_t run, std::size_t p) {
    return product.c + (run * runs.panels + p) * Rows * 16;
  };
  const panel_parts cut = runs.parts(dot_part_bytes);
  for (std::size_t p = 0; p < runs.panels; ++p) {
    const std::byte* panel = product.panel + p * product.panel_stride;
    if (header != 0) { // lines that are read first in the next panels
      const upcoming_panels behind = runs.behind(p);
      for (std::size_t run = 0; run < panel_runs; ++run)
        for (std::size_t line = 0; line < 2; ++line)
          fetch_line(behind.first + run * behind.run_stride - header + line * vector_bytes);
    }
    over_parts(runs, cut, p, [&](const run_part& part) {
      run_fetch fetch(part.coming, part.coming_stride);
      for (std::size_t run = 0; run < panel_runs; ++run) {
        const bfloat16* x = product.a + part.first * block_k;
        Blocks blocks(panel + run * runs.run_stride, product.blocks, part.first);
        for (std::size_t b = 0; b < part.blocks; ++b, x += block_k)
          blocks.template multiply<Rows>(row_dots{x, product.a_stride}, add_to_rows{sums(run, p)},
                                         [&](std::size_t line) { fetch.weights(nullptr, line); });
      }
    });
  }
}

template <class Blocks>
static void dots_in_runs(const dot_product& product) {
  in_row_blocks<dot_rows>(product.rows,
                          [&]<std::size_t Rows>(std::size_t) { dot_runs<Blocks, Rows>(product); });
}

static void order_in_place(std::byte* blocks, std::size_t count) {
  alignas(64) std::byte ordered[panel_block_bytes];
  for (std::size_t b = 0; b < count; ++b, blocks += panel_block_bytes) {
    order_dots(blocks, 1, ordered);
    __builtin_memcpy(blocks, ordered, panel_block_bytes);
  }
}

/// `Panels` panels with many rows; as many from `coming` on are prefetched meanwhile.
template <class Blocks, std::size_t Panels>
static void dots_in_order(const dot_product& product, const std::byte* panel, const std::byte* coming,
                          float* c) {
  constexpr std::size_t ordered_bytes = dot_chunk_blocks * panel_block_bytes;
  alignas(64) std::byte ordered[Panels * ordered_bytes];
  const std::size_t header = Blocks::header_bytes(product.blocks);
  for (std::size_t first = 0; first < product.blocks; first += dot_chunk_blocks) {
    const std::size_t left = product.blocks - first;
    const std::size_t blocks = left < dot_chunk_blocks ? left : dot_chunk_blocks;
    for (std::size_t p = 0; p < Panels; ++p)
      Blocks(panel + p * product.panel_stride, product.blocks, first)
          .order(blocks, ordered + p * ordered_bytes);
    // What comes next (the same panels' next chunk, or the first one of the following panels) is prefetched
    // by all passes equally: if the first pass did it alone, memory would be idle during the others.
    const std::byte* next = left > blocks ? panel + header + (first + blocks) * Blocks::bytes : coming;
    const std::size_t bytes = next == nullptr ? 0 : blocks * Blocks::bytes;
    const std::size_t steps = (product.rows + dot_pair_rows - 1) / dot_pair_rows * blocks;
    const std::size_t bytes_of_step = (bytes / vector_bytes + steps - 1) / steps * vector_bytes;
    std::size_t fetched = 0;
    const bfloat16* x = product.a + first * block_k;
    in_row_blocks<dot_pair_rows>(product.rows, [&]<std::size_t Rows>(std::size_t row) {
      for (std::size_t b = 0; b < blocks; ++b) {
        for (const std::size_t end = fetched + bytes_of_step; fetched < end && fetched < bytes;
             fetched += vector_bytes)
          for (std::size_t p = 0; p < Panels; ++p)
            __builtin_prefetch(next + p * product.panel_stride + fetched, 0, 3);
        dot_block<Rows, Panels>(row_dots{x + row * product.a_stride + b * block_k, product.a_stride},
                                ordered_dots{ordered + b * panel_block_bytes, ordered_bytes},
                                add_to_rows{c + row * 16, product.rows * 16});
      }
    });
  }
}

template <class Blocks>
static void dots(const dot_product& product) {
  const auto panel = [&](std::size_t p) { return product.panel + p * product.panel_stride; };
  const auto behind = [&](std::size_t p) { return p < product.panels ? panel(p) : product.next.first; };
  const auto sums = [&](std::size_t p) { return product.c + p * product.rows * 16; };
  std::size_t p = 0;
  if (product.rows > dot_rows) {
    for (; p + 2 <= product.panels; p += 2)
      dots_in_order<Blocks, 2>(product, panel(p), behind(p + 2), sums(p));
    if (p < product.panels)
      dots_in_order<Blocks, 1>(product, panel(p), behind(p + 1), sums(p));
    return;
  }
  for (; p < product.panels; ++p)
    in_row_blocks<dot_rows>(product.rows, [&]<std::size_t Rows>(std::size_t row) {
      dot_panel<Blocks, Rows>(product, row, panel(p), sums(p));
    });
}

/// Place of value `k` of a row.
constexpr std::size_t dot_index(std::size_t k) {
  return k / block_k * block_k + k % 2 * half_block + ((k % block_k / 2) ^ 1);
}

/// For each place of a block, the index of its value; or, of 32 words that lie between others, the index of
/// its word.
struct dot_order {
  alignas(64) std::uint16_t value[block_k]{};
  alignas(64) std::uint16_t upper_word[block_k]{};

  constexpr dot_order() {
    for (std::size_t k = 0; k < block_k; ++k) {
      value[dot_index(k)] = static_cast<std::uint16_t>(k);
      upper_word[dot_index(k)] = static_cast<std::uint16_t>(2 * k + 1);
    }
  }
};

inline constexpr dot_order dots_in_place;

/// Rounds and packs a block of 32 FP32 values of a row.
TROUPE_INLINE void pack_dots(const float* values, bfloat16* out) {
  _mm512_storeu_si512(out, _mm512_permutex2var_epi16(rounded_bits(load(values)),
                                                     load_pairs(dots_in_place.upper_word),
                                                     rounded_bits(load(values + lanes))));
}

TROUPE_INLINE void pack_dots(const bfloat16* values, bfloat16* out) {
  _mm512_storeu_si512(out, _mm512_permutexvar_epi16(load_pairs(dots_in_place.value), load_pairs(values)));
}

static void pack_row_dots(const std::byte* row, dtype type, std::size_t k, bfloat16* out) {
  with_type(row, type, [&](const auto* values) {
    std::size_t i = 0;
    for (; i + block_k <= k; i += block_k)
      pack_dots(values + i, out + i);
    if (i == k)
      return;
    std::remove_cvref_t<decltype(*values)> last[block_k] = {};
    __builtin_memcpy(last, values + i, (k - i) * sizeof *last);
    pack_dots(last, out + i);
  });
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
