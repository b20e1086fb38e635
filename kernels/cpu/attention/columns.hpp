// Attention of a block of many rows in columns. The order of operations is that of attention.hpp, so the bits
// equal those of attention/rows_fma.hpp. Included only by the kernels of AMX and of dot products, which
// supply the products.
//
// Everything is transposed: scores are K · Qᵀ and outputs Vᵀ · Pᵀ. A vector holds the numbers of 16 rows for
// one key (or dimension), so maxima, sums, exp and rescaling need no step across lanes. The trees of maximum
// and sum are those of one row's 16 lanes; here these lanes are vectors. Keys and values are reordered once
// per block and chunk, which does not pay for few rows.
//
// Keys that a row does not see have probability 0 and are multiplied all the same. With finite values that
// changes no bit: a sum that starts from +0 can only turn from −0 into +0, and the last addition to +0 makes
// either of them +0.
#pragma once

#include "kernels/cpu/attention/chunks.hpp"
#include "kernels/cpu/attention/rows_fma.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// Transposes 16 × 16 numbers of 32 bits. `row(i)`: address of row i.
template <class Row>
TROUPE_INLINE void transpose_16(const Row& row, std::byte* out, std::size_t out_stride) {
#pragma GCC unroll 4
  for (std::size_t quarter = 0; quarter < 4; ++quarter) {
    // Part i: rows i, i + 4, i + 8 and i + 12, four columns of each.
    __m512 part[4];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      const auto four = [&](std::size_t r) {
        return _mm_loadu_ps(reinterpret_cast<const float*>(row(r) + quarter * 16));
      };
      part[i] = _mm512_castps128_ps512(four(i));
      part[i] = _mm512_insertf32x4(part[i], four(i + 4), 1);
      part[i] = _mm512_insertf32x4(part[i], four(i + 8), 2);
      part[i] = _mm512_insertf32x4(part[i], four(i + 12), 3);
    }
    const auto as_double = [](__m512 x) { return _mm512_castps_pd(x); };
    const __m512d low_01 = as_double(_mm512_unpacklo_ps(part[0], part[1]));
    const __m512d high_01 = as_double(_mm512_unpackhi_ps(part[0], part[1]));
    const __m512d low_23 = as_double(_mm512_unpacklo_ps(part[2], part[3]));
    const __m512d high_23 = as_double(_mm512_unpackhi_ps(part[2], part[3]));
    std::byte* to = out + quarter * 4 * out_stride;
    _mm512_storeu_pd(to, _mm512_unpacklo_pd(low_01, low_23));
    _mm512_storeu_pd(to + out_stride, _mm512_unpackhi_pd(low_01, low_23));
    _mm512_storeu_pd(to + 2 * out_stride, _mm512_unpacklo_pd(high_01, high_23));
    _mm512_storeu_pd(to + 3 * out_stride, _mm512_unpackhi_pd(high_01, high_23));
  }
}

constexpr std::size_t most_value_dims = 512; // kv_cache.hpp

/// The working memory of a row block. Rows are padded to whole tiles.
struct column_attention {
  std::size_t key_dim;
  std::size_t value_dim;
  std::byte* query;         // [row tiles][key_dim / 32][16 pairs of dimensions][16 rows][2]
  std::byte* keys;          // of a chunk: [2][key_dim / 32], 1 KiB each, as operands of the products
  std::byte* values;        // of a chunk: [value_dim / 16], as operands of the products
  float* score;             // of two tiles of rows: [2][32 keys][16 rows]
  std::byte* probabilities; // [2][16 pairs of keys][16 rows][2]
  float* fresh;             // a chunk's contribution: [2][value_dim][16 rows]; last, 16 rows of output
  float* sum;               // [row tiles][value_dim][16 rows], the unnormalised output
  float* largest;           // [rows]
  float* weight;            // [rows]: l
};

static column_attention begin_column_attention(const attention_block& block) {
  const std::size_t rows = block.tokens * block.group;
  const std::size_t padded = (rows + tile_rows - 1) / tile_rows * tile_rows;
  column_attention s{};
  s.key_dim = (block.head_dim + block_k - 1) / block_k * block_k;
  s.value_dim = (block.value_dim + 15) / 16 * 16;
  std::byte* at = block.scratch;
  const auto take = [&](std::size_t num_bytes) {
    std::byte* begin = at;
    at += (num_bytes + 63) / 64 * 64;
    return begin;
  };
  const auto take_floats = [&](std::size_t count) {
    return reinterpret_cast<float*>(take(count * sizeof(float)));
  };
  s.query = take(padded * s.key_dim * sizeof(bfloat16));
  s.keys = take(chunk_keys * s.key_dim * sizeof(bfloat16));
  s.values = take(chunk_keys * s.value_dim * sizeof(bfloat16));
  s.score = take_floats(2 * chunk_keys * tile_rows);
  s.probabilities = take(2 * tile_bytes);
  s.fresh = take_floats(2 * s.value_dim * tile_rows);
  s.sum = take_floats(padded * s.value_dim);
  s.largest = take_floats(padded);
  s.weight = take_floats(padded);
  const std::size_t query_tile = s.key_dim / block_k * tile_bytes;
  std::memset(s.query + (padded / tile_rows - 1) * query_tile, 0, query_tile);
  for (std::size_t t = 0; t < block.tokens; ++t)
    for (std::size_t g = 0; g < block.group; ++g) {
      const std::size_t row = t * block.group + g;
      pack_row_tiles(block.query[t] + bytes_of(block.query_type, g * block.head_dim), block.query_type,
                     block.head_dim, s.query + row / tile_rows * query_tile + row % tile_rows * 64);
      s.largest[row] = block.sinks != nullptr ? block.sinks[g] : -std::numeric_limits<float>::infinity();
      s.weight[row] = block.sinks != nullptr ? 1.0F : 0.0F;
    }
  for (std::size_t row = rows; row < padded; ++row)
    s.largest[row] = s.weight[row] = 0.0F;
  alignas(64) std::byte tile[tile_bytes];
  for (std::byte* q = s.query; q != s.query + padded / tile_rows * query_tile; q += tile_bytes) {
    transpose_16([&](std::size_t i) { return q + i * 64; }, tile, 64);
    std::memcpy(q, tile, tile_bytes);
  }
  std::memset(s.sum, 0, padded * s.value_dim * sizeof(float));
  return s;
}

/// Rows of a tile that see key k of a chunk.
struct column_mask {
  __m512i first;
  __m512i end;

  __attribute__((always_inline)) explicit column_mask(const tile_mask& mask) {
    alignas(64) std::int32_t from[tile_rows];
    alignas(64) std::int32_t to[tile_rows];
    for (std::size_t r = 0; r < tile_rows; ++r) {
      from[r] = mask.keys[r] == 0 ? 0 : __builtin_ctz(mask.keys[r]);
      to[r] = mask.keys[r] == 0 ? 0 : 32 - __builtin_clz(mask.keys[r]);
    }
    first = _mm512_load_si512(from);
    end = _mm512_load_si512(to);
  }

  inline __attribute__((always_inline)) __mmask16 rows(std::size_t k) const {
    const __m512i key = _mm512_set1_epi32(static_cast<int>(k));
    return _mm512_mask_cmpgt_epi32_mask(_mm512_cmple_epi32_mask(first, key), end, key);
  }
};

/// Stores two vectors as BF16 pairs, for results of arithmetic (`rounded_words`).
TROUPE_INLINE void store_rounded_pairs(std::byte* p, vf even, vf odd) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  _mm512_store_si512(p, _mm512_permutexvar_epi16(order, rounded_words(even, odd)));
}

/// exp(x) for x ≤ 0 or NaN.
TROUPE_INLINE vf exp_of_negative(vf x) {
  const unscaled_exp e(max(set1(-87.0F), x));
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, set1(-86.6F), _CMP_NLT_UQ), e.p, e.n);
}

/// Turns scores into probabilities, as pairs of keys, and updates maximum and sum of 16 rows.
/// @param scaled  scaled(k): the scaled scores of key k, −infinity in rows that do not see it
/// @param stored  stored(k, p): the value to store for probabilities p of key k
/// @returns exp(m − m')
template <class Scaled, class Stored>
TROUPE_INLINE vf softmax_columns(const column_attention& s, std::size_t row, __mmask16 rows,
                                 std::byte* probabilities, const Scaled& scaled, const Stored& stored) {
  vf most[8];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 8; ++i)
    most[i] = max(max(scaled(i), scaled(i + 16)), max(scaled(i + 8), scaled(i + 24)));
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i)
    most[i] = max(most[i], most[i + 4]);
  const vf before = load(s.largest + row);
  const vf now = max(before, max(max(most[0], most[2]), max(most[1], most[3])));
  vf sums[8];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 8; i += 2) {
    vf p[8];
#pragma GCC unroll 8
    for (std::size_t j = 0; j < 8; ++j)
      p[j] = exp_of_negative(sub(scaled(i + j % 2 + j / 2 * 8), now));
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j)
      store_rounded_pairs(probabilities + (i / 2 + j * 4) * 64, stored(i + j * 8, p[2 * j]),
                          stored(i + 1 + j * 8, p[2 * j + 1]));
    sums[i] = add(add(p[0], p[4]), add(p[2], p[6]));
    sums[i + 1] = add(add(p[1], p[5]), add(p[3], p[7]));
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i)
    sums[i] = add(sums[i], sums[i + 4]);
  const vf total = add(add(sums[0], sums[2]), add(sums[1], sums[3]));
  const vf rescale = exp(sub(before, now));
  _mm512_mask_storeu_ps(s.largest + row, rows, now);
  _mm512_mask_storeu_ps(s.weight + row, rows, fma(load(s.weight + row), rescale, total));
  return rescale;
}

/// Scaled scores and probabilities of a tile of rows that see a chunk.
/// @returns exp(m − m')
static vf softmax_of_tile(const column_attention& s, std::size_t row, const tile_mask& mask,
                          const chunk_scales& scales) {
  const std::size_t tile = row / tile_rows % 2;
  float* score = s.score + tile * chunk_keys * tile_rows;
  std::byte* probabilities = s.probabilities + tile * tile_bytes;
  const auto scores = [&](std::size_t k) { return load(score + k * tile_rows); };
  const auto as_it_is = [](std::size_t, vf p) { return p; };
  if (mask.rows == 0xffff && mask.partial == 0) {
    const auto scaled = [&](std::size_t k) { return mul(scores(k), set1(scales.score[k])); };
    if (!scales.has_values)
      return softmax_columns(s, row, mask.rows, probabilities, scaled, as_it_is);
    return softmax_columns(s, row, mask.rows, probabilities, scaled,
                           [&](std::size_t k, vf p) { return mul(p, set1(scales.value[k])); });
  }
  const column_mask seen(mask);
  const vf lowest = set1(-std::numeric_limits<float>::infinity());
  for (std::size_t k = 0; k < chunk_keys; ++k)
    store(score + k * tile_rows, _mm512_mask_mul_ps(lowest, seen.rows(k), scores(k), set1(scales.score[k])));
  if (!scales.has_values)
    return softmax_columns(s, row, mask.rows, probabilities, scores, as_it_is);
  return softmax_columns(s, row, mask.rows, probabilities, scores, [&](std::size_t k, vf p) {
    // The scale may be NaN if no row sees the key.
    return _mm512_maskz_mul_ps(seen.rows(k), p, set1(scales.value[k]));
  });
}

/// One row that sees only some keys of a chunk with values that are not finite: invisible keys must not be
/// multiplied.
static void add_values_of_row(const column_attention& s, std::size_t row, vf factors, std::uint32_t keys,
                              const std::byte* const* tiles) {
  const std::size_t r = row % tile_rows;
  float* column = s.sum + row / tile_rows * s.value_dim * tile_rows + r;
  alignas(64) float sum[most_value_dims];
  alignas(64) float score[chunk_keys];
  alignas(64) float factor[tile_rows];
  store(factor, factors);
  for (std::size_t d = 0; d < s.value_dim; ++d)
    sum[d] = column[d * tile_rows];
  const auto* pairs = reinterpret_cast<const bfloat16*>(s.probabilities + row / tile_rows % 2 * tile_bytes);
  for (std::size_t k = 0; k < chunk_keys; ++k)
    score[k] = to_float(pairs[(k / 2 * tile_rows + r) * 2 + k % 2]);
  attention_state state;
  state.key_dim = s.key_dim;
  state.value_dim = s.value_dim;
  state.sum = sum;
  state.score = score;
  state.factor = factor + r;
  const auto first = lowest_bit(keys);
  const auto end = std::size_t{32} - static_cast<std::size_t>(__builtin_clz(keys));
  values_of_part(state, 0, tiles, first, end, dtype::bf16);
  for (std::size_t d = 0; d < s.value_dim; ++d)
    column[d * tile_rows] = sum[d];
}

static void finish_column_attention(const attention_block& block, const column_attention& s) {
  const std::size_t rows = block.tokens * block.group;
  float* out = s.fresh; // [16][value_dim]
  for (std::size_t row = 0; row < rows; row += tile_rows) {
    float* sum = s.sum + row * s.value_dim;
    const vf weight = load(s.weight + row);
    for (std::size_t d = 0; d < s.value_dim * tile_rows; d += tile_rows)
      store(sum + d, div(load(sum + d), weight));
    for (std::size_t d = 0; d < s.value_dim; d += 16)
      transpose_16(
          [&](std::size_t i) { return reinterpret_cast<const std::byte*>(sum + (d + i) * tile_rows); },
          reinterpret_cast<std::byte*>(out + d), s.value_dim * sizeof(float));
    for (std::size_t r = 0; r < smaller(tile_rows, rows - row); ++r) {
      const std::size_t t = (row + r) / block.group;
      const std::size_t g = (row + r) % block.group;
      std::byte* to = block.output[t] + bytes_of(block.output_type, g * block.value_dim);
      with_type(to, block.output_type, [&](auto* values) {
        for_each_16(block.value_dim, [&](std::size_t i, std::size_t n) {
          store_some(values + i, n, load_some(out + r * s.value_dim + i, n));
        });
      });
    }
  }
}

/// Attention of a row block with one of the following classes of products:
///
///     Products(const column_attention&, const attention_block&) once per block
///     bool begin_chunk(type, keys, values)                    its tiles; whether all values are finite
///     void scores(query, tiles)                               one or two tiles of rows, [key][row], unscaled
///     void begin_values()                                     of the last tiles of `scores`; may now change
///                                                             their probabilities
///     void add_values(row, tile, factor, rows)                sum = fma(sum, factor, 0 + (even + odd)) for
///                                                             `rows` of the first or second of these tiles
template <class Products>
static void column_attention_block(const attention_block& block) {
  const column_attention s = begin_column_attention(block);
  const std::size_t rows = block.tokens * block.group;
  const std::size_t query_tile = s.key_dim / block_k * tile_bytes;
  Products products(s, block);
  for_each_chunk(block, [&](std::size_t begin, const std::byte* const* keys, const std::byte* const* values) {
    const bool finite = products.begin_chunk(block.cache_type, keys, values);
    const chunk_scales scales(block, keys, values, s.key_dim, s.value_dim);
    for (std::size_t pair = 0; pair < rows; pair += 2 * tile_rows) {
      tile_mask masks[2];
      masks[0] = mask_of(block, pair, smaller(tile_rows, rows - pair), begin);
      masks[1] = tile_mask{};
      if (pair + tile_rows < rows)
        masks[1] = mask_of(block, pair + tile_rows, smaller(tile_rows, rows - pair - tile_rows), begin);
      if (masks[0].rows == 0 && masks[1].rows == 0)
        continue;
      products.scores(s.query + pair / tile_rows * query_tile, pair + tile_rows < rows ? 2 : 1);
      vf factors[2];
      for (std::size_t i = 0; i < 2; ++i)
        if (masks[i].rows != 0)
          factors[i] = softmax_of_tile(s, pair + i * tile_rows, masks[i], scales);
      for (std::size_t i = 0; i < 2 && !finite; ++i) {
        for (std::uint32_t left = masks[i].partial; left != 0; left &= left - 1) {
          const std::size_t r = lowest_bit(left);
          add_values_of_row(s, pair + i * tile_rows + r, factors[i], masks[i].keys[r], values);
        }
        masks[i].rows = static_cast<__mmask16>(masks[i].rows & ~masks[i].partial);
      }
      products.begin_values();
      for (std::size_t i = 0; i < 2; ++i)
        if (masks[i].rows != 0)
          products.add_values(pair + i * tile_rows, i, factors[i], masks[i].rows);
    }
  });
  finish_column_attention(block, s);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
