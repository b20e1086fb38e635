// A chunk's contribution to rows, with FMAs; attention.hpp defines the order of operations. Included only by
// attention/rows_fma.hpp.
#pragma once

#include "kernels/cpu/attention/kv_int8.hpp"
#include "kernels/cpu/attention/state.hpp"
#include "kernels/cpu/simd/math.hpp"
#include "kernels/cpu/simd/row_blocks.hpp"
#include "kernels/cpu/simd/v16.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

#if !defined(TROUPE_ISA_AVX2) // AVX2 has its own

/// sum = fma(sum, factor, even + odd) for `Rows` rows, pairs of keys [0, 16) of
/// two tiles.
struct value_kernel_bf16 {
  static constexpr std::size_t most_rows = lanes == 16 ? 8 : 6;

  template <std::size_t Rows>
  TROUPE_INLINE void run(const attention_state& s, std::size_t row, const std::byte* const* tiles,
                         tile_fetch& fetch) {
    const float* p = s.score + row * chunk_keys;
    for (std::size_t d = 0; d < s.value_dim; d += lanes) {
      fetch.steps(lanes);
      vf even[Rows];
      vf odd[Rows];
#  pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r)
        even[r] = odd[r] = set1(0.0F);
      for (std::size_t tile = 0; tile < 2; ++tile) {
        const std::byte* v = tiles[tile] + d * 4;
        const float* x = p + tile * tile_tokens;
#  pragma GCC unroll 1
        for (std::size_t k = 0; k < tile_tokens / 2; ++k) {
          const vi pairs = load_pairs(v + k * s.value_dim * 4);
          const vf v_even = even_of(pairs);
          const vf v_odd = odd_of(pairs);
#  pragma GCC unroll 16
          for (std::size_t r = 0; r < Rows; ++r) {
            even[r] = fma(set1(x[r * chunk_keys + 2 * k]), v_even, even[r]);
            odd[r] = fma(set1(x[r * chunk_keys + 2 * k + 1]), v_odd, odd[r]);
          }
        }
      }
#  pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r) {
        float* to = s.sum + (row + r) * s.key_dim + d;
        const vf fresh = add(set1(0.0F), add(even[r], odd[r]));
        store(to, fma(load(to), set1(s.factor[row + r]), fresh));
      }
    }
  }
};

#endif

/// FP32: sum · factor, then one FMA per key of two tiles.
struct value_kernel_f32 {
  static constexpr std::size_t most_rows = 6;

  template <std::size_t Rows>
  TROUPE_INLINE void run(const attention_state& s, std::size_t row, const std::byte* const* tiles,
                         tile_fetch& fetch) {
    const float* p = s.score + row * chunk_keys;
    for (std::size_t d = 0; d < s.value_dim; d += lanes) {
      fetch.steps(2 * lanes);
      vf sum[Rows];
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r)
        sum[r] = mul(load(s.sum + (row + r) * s.key_dim + d), set1(s.factor[row + r]));
      for (std::size_t tile = 0; tile < 2; ++tile) {
        const auto* v = reinterpret_cast<const float*>(tiles[tile]) + d;
        const float* x = p + tile * tile_tokens;
#pragma GCC unroll 1
        for (std::size_t k = 0; k < tile_tokens; ++k) {
          const vf value = load(v + k * s.value_dim);
#pragma GCC unroll 16
          for (std::size_t r = 0; r < Rows; ++r)
            sum[r] = fma(set1(x[r * chunk_keys + k]), value, sum[r]);
        }
      }
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r)
        store(s.sum + (row + r) * s.key_dim + d, sum[r]);
    }
  }
};

/// Rows that see every key of the chunk.
template <class Kernel>
TROUPE_INLINE void values_of_rows(const attention_state& s, std::size_t row, std::size_t rows,
                                  const std::byte* const* tiles, tile_fetch& fetch) {
  in_row_blocks<Kernel::most_rows>(rows, [&]<std::size_t Rows>(std::size_t done) {
    Kernel::template run<Rows>(s, row + done, tiles, fetch);
  });
}

/// One row that sees keys [first, end) of the chunk: the same chains over those keys alone.
static void values_of_part(const attention_state& s, std::size_t row, const std::byte* const* tiles,
                           std::size_t first, std::size_t end, dtype type) {
  const float* p = s.score + row * chunk_keys;
  const vf factor = set1(s.factor[row]);
  for (std::size_t d = 0; d < s.value_dim; d += lanes) {
    float* to = s.sum + row * s.key_dim + d;
    if (type == dtype::f32) {
      vf sum = mul(load(to), factor);
      for (std::size_t k = first; k < end; ++k) {
        const auto* v = reinterpret_cast<const float*>(tiles[k / tile_tokens]);
        sum = fma(set1(p[k]), load(v + k % tile_tokens * s.value_dim + d), sum);
      }
      store(to, sum);
      continue;
    }
    vf even = set1(0.0F);
    vf odd = set1(0.0F);
    for (std::size_t k = first; k < end; ++k) {
      const std::byte* v = tiles[k / tile_tokens] + (k % tile_tokens / 2 * s.value_dim + d) * 4;
      if (k % 2 == 0)
        even = fma(set1(p[k]), even_of(load_pairs(v)), even);
      else
        odd = fma(set1(p[k]), odd_of(load_pairs(v)), odd);
    }
    store(to, fma(load(to), factor, add(set1(0.0F), add(even, odd))));
  }
}

#if !defined(TROUPE_ISA_AVX2) // AVX2 has its own

/// The values of a chunk in BF16 or int8, for rows of a block.
class chunk_values {
 public:
  chunk_values(const attention_state& s, dtype type, const std::byte* const* tiles, std::size_t /*rows*/)
      : s_(s), tiles_{tiles[0], tiles[1]} {
    if (type != dtype::int8)
      return;
    auto* pairs = reinterpret_cast<std::byte*>(s.values);
    for (const std::byte*& tile : tiles_) {
      pair_int8_rows(tile, tile_tokens, s.value_dim, pairs);
      tile = pairs;
      pairs += tile_tokens * s.value_dim * sizeof(bfloat16);
    }
  }

  /// Adds to rows that see keys [0, keys).
  void add(std::size_t row, std::size_t rows, std::size_t keys, tile_fetch& fetch) const {
    if (keys == chunk_keys)
      values_of_rows<value_kernel_bf16>(s_, row, rows, tiles_, fetch);
    else
      for (std::size_t r = row; r < row + rows; ++r)
        values_of_part(s_, r, tiles_, 0, keys, dtype::bf16);
  }

 private:
  const attention_state& s_;
  const std::byte* tiles_[2];
};

#endif

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
