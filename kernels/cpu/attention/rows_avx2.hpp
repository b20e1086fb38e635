// Products of attention on AVX2, in the order of attention.hpp. Included only by attention/rows_fma.hpp, for
// AVX2.
#pragma once

#include "kernels/cpu/attention/kv_int8.hpp"
#include "kernels/cpu/attention/state.hpp"
#include "kernels/cpu/gemm/fma_avx2.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t attention_direct_rows = 6; // up to this many rows read keys and values directly

/// score += query · keys of a tile in its stored form.
template <std::size_t Rows>
TROUPE_LOOP void avx2_score_packed(const attention_state& s, const float* query, const std::byte* tile,
                                   float* score, tile_fetch& fetch) {
  avx2_blocks<Rows>(query, s.key_dim, s.key_dim / block_k, score, chunk_keys, [&](std::size_t b, bool odd) {
    return [block = tile + b * panel_block_bytes, odd, &fetch](std::size_t k, std::size_t j) {
      if (j == 0 && k % 2 == odd)
        fetch.step();
      return packed_weights(block, odd, k, j);
    };
  });
}

/// The same with int8 keys.
template <std::size_t Rows>
TROUPE_LOOP void avx2_score_int8(const attention_state& s, const float* query, const std::byte* tile,
                                 float* score, tile_fetch& fetch) {
  avx2_blocks<Rows>(query, s.key_dim, s.key_dim / block_k, score, chunk_keys, [&](std::size_t b, bool odd) {
    return [block = tile + (b * block_k + odd) * tile_tokens, odd, &fetch](std::size_t k, std::size_t j) {
      if (j == 0 && k % 4 == odd) // half as many lines
        fetch.step();
      return load_int8(block + 2 * k * tile_tokens + j * lanes);
    };
  });
}

/// Converts an int8 tile of keys to the layout of `expand_bf16`.
static void expand_int8_keys(const std::byte* tile, std::size_t dims, float* out) {
  for (std::size_t d = 0; d < dims; ++d, tile += tile_tokens) {
    float* to = widened_half(out, d / block_k, d % 2 != 0) + d % block_k / 2 * tile_tokens;
    for (std::size_t i = 0; i < tile_tokens; i += lanes)
      store(to + i, load_int8(tile + i));
  }
}

/// score += query · keys of a tile, which has the layout of a product's panel. For many rows it is widened
/// first.
static void score_tile(const attention_state& s, dtype type, const float* query, std::size_t rows,
                       const std::byte* tile, float* score, tile_fetch& fetch) {
  const std::size_t blocks = s.key_dim / block_k;
  if (rows <= attention_direct_rows) {
    in_row_blocks<attention_direct_rows>(rows, [&]<std::size_t Rows>(std::size_t) {
      if (type == dtype::int8)
        avx2_score_int8<Rows>(s, query, tile, score, fetch);
      else
        avx2_score_packed<Rows>(s, query, tile, score, fetch);
    });
    return;
  }
  if (type == dtype::int8) {
    expand_int8_keys(tile, s.key_dim, s.keys);
    bf16_expanded_avx2(query, s.key_dim, rows, s.keys, blocks, score, chunk_keys);
    return;
  }
  for (std::size_t b = 0; b < blocks; b += bf16_part_blocks) { // 16 KiB of L1
    const std::size_t count = smaller(bf16_part_blocks, blocks - b);
    expand_bf16(tile + b * panel_block_bytes, count, s.keys);
    bf16_expanded_avx2(query + b * block_k, s.key_dim, rows, s.keys, count, score, chunk_keys);
  }
}

/// Sums over the even or the odd keys, `count` of them: probabilities (every other one of a row) times
/// values.
template <std::size_t Rows, class Weights>
TROUPE_INLINE void avx2_sum_values(row_pointers<Rows> rows, const Weights& weights, std::size_t count,
                                   vf (&sum)[Rows][parts]) {
  constexpr std::size_t together = 4;
#pragma GCC unroll 6
  for (std::size_t r = 0; r < Rows; ++r)
    sum[r][0] = sum[r][1] = set1(0.0F);
  std::size_t k = 0;
#pragma GCC unroll 1
  for (; k + together <= count; k += together)
    avx2_sum_some<Rows, 2, together>(rows, weights, k, sum);
#pragma GCC unroll 1
  for (; k < count; ++k)
    avx2_sum_some<Rows, 2, 1>(rows, weights, k, sum);
}

/// sum = fma(sum, factor, even + odd) for `Rows` rows that see keys [0, keys) of the chunk, and 16 columns.
/// @param sums     of the first row
/// @param weights  weights(odd) returns the values of even or odd keys as `avx2_sum_values` takes them
template <std::size_t Rows, class Weights>
TROUPE_INLINE void avx2_add_values(const attention_state& s, std::size_t row, float* sums, std::size_t keys,
                                   const Weights& weights) {
  const float* p = s.score + row * chunk_keys;
  alignas(32) float even[Rows][parts][lanes];
  {
    vf sum[Rows][parts];
    avx2_sum_values<Rows>({p, chunk_keys * sizeof(float)}, weights(false), (keys + 1) / 2, sum);
    store_half<Rows>(sum, even);
  }
  vf odd[Rows][parts];
  avx2_sum_values<Rows>({p + 1, chunk_keys * sizeof(float)}, weights(true), keys / 2, odd);
#pragma GCC unroll 6
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t j = 0; j < parts; ++j) {
      float* to = sums + r * s.key_dim + j * lanes;
      const vf fresh = add(set1(0.0F), add(load(even[r][j]), odd[r][j]));
      store(to, fma(load(to), set1(s.factor[row + r]), fresh));
    }
}

/// With widened values.
template <std::size_t Rows>
TROUPE_LOOP void avx2_add_widened(const attention_state& s, std::size_t row, float* sums, std::size_t keys,
                                  const float* panel) {
  avx2_add_values<Rows>(s, row, sums, keys, [&](bool odd) {
    return [half = widened_half(panel, 0, odd)](std::size_t k, std::size_t j) {
      return widened_weights(half, k, j);
    };
  });
}

/// With 16 columns of values in their stored form: pairs of keys, `stride` bytes apart, of two tiles.
template <std::size_t Rows>
TROUPE_LOOP void avx2_add_packed(const attention_state& s, std::size_t row, float* sums, std::size_t keys,
                                 const std::byte* const (&tiles)[2], std::size_t stride, tile_fetch& fetch) {
  avx2_add_values<Rows>(s, row, sums, keys, [&](bool odd) {
    return [&tiles, stride, odd, &fetch](std::size_t k, std::size_t j) {
      if (j == 0 && k % 2 == odd)
        fetch.step();
      constexpr std::size_t tile_pairs = tile_tokens / 2;
      const vi pairs = load_pairs(tiles[k / tile_pairs] + k % tile_pairs * stride + j * lanes * 4);
      return odd ? odd_of(pairs) : even_of(pairs);
    };
  });
}

/// The same with int8 values: keys `stride` bytes apart.
template <std::size_t Rows>
TROUPE_LOOP void avx2_add_int8(const attention_state& s, std::size_t row, float* sums,
                               const std::byte* const (&tiles)[2], std::size_t stride, tile_fetch& fetch) {
  avx2_add_values<Rows>(s, row, sums, chunk_keys, [&](bool odd) {
    return [&tiles, stride, odd, &fetch](std::size_t k, std::size_t j) {
      if (j == 0 && k % 4 == odd)
        fetch.step();
      constexpr std::size_t tile_pairs = tile_tokens / 2;
      return load_int8(tiles[k / tile_pairs] + (k % tile_pairs * 2 + odd) * stride + j * lanes);
    };
  });
}

/// The values of a chunk in BF16 or int8, for rows of a block; widened for many rows.
class chunk_values {
 public:
  /// @param rows  rows that may see them
  chunk_values(const attention_state& s, dtype type, const std::byte* const* tiles, std::size_t rows)
      : s_(s), type_(type), tiles_(tiles), widened_(rows > attention_direct_rows) {
    if (!widened_)
      return;
    if (type == dtype::int8)
      widen_int8();
    else
      widen_bf16();
  }

  /// Adds to rows that see keys [0, keys); with int8 to rows that take all keys.
  void add(std::size_t row, std::size_t rows, std::size_t keys, tile_fetch& fetch) const {
    const std::size_t dim_bytes = type_ == dtype::int8 ? 1 : 4; // of a key, or of a pair of keys
    const std::size_t stride = s_.value_dim * dim_bytes;
    for (std::size_t d = 0; d < s_.value_dim; d += 16) {
      const std::byte* const tiles[2] = {tiles_[0] + d * dim_bytes, tiles_[1] + d * dim_bytes};
      in_row_blocks<widened_rows>(rows, [&]<std::size_t Rows>(std::size_t done) {
        float* sums = s_.sum + (row + done) * s_.key_dim + d;
        if (widened_)
          avx2_add_widened<Rows>(s_, row + done, sums, keys, s_.values + d * block_k);
        else if (type_ == dtype::int8)
          avx2_add_int8<Rows>(s_, row + done, sums, tiles, stride, fetch);
        else
          avx2_add_packed<Rows>(s_, row + done, sums, keys, tiles, stride, fetch);
      });
    }
  }

 private:
  // Panels of a product: [value_dim / 16][16 even keys, then 16 odd ones][16].
  float* widened(std::size_t d, std::size_t k, bool odd) const {
    return widened_half(s_.values, d / 16, odd) + k * 16 + d % 16;
  }

  void widen_bf16() const {
    constexpr std::size_t tile_pairs = tile_tokens / 2;
    for (std::size_t d = 0; d < s_.value_dim; d += lanes)
      for (std::size_t k = 0; k < half_block; ++k) {
        const vi pairs = load_pairs(tiles_[k / tile_pairs] + (k % tile_pairs * s_.value_dim + d) * 4);
        store(widened(d, k, false), even_of(pairs));
        store(widened(d, k, true), odd_of(pairs));
      }
  }

  void widen_int8() const {
    for (std::size_t k = 0; k < chunk_keys; ++k) {
      const std::byte* from = tiles_[k / tile_tokens] + k % tile_tokens * s_.value_dim;
      for (std::size_t d = 0; d < s_.value_dim; d += lanes)
        store(widened(d, k / 2, k % 2 != 0), load_int8(from + d));
    }
  }

  const attention_state& s_;
  dtype type_;
  const std::byte* const* tiles_;
  bool widened_;
};

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
