// Attention of one row block on AMX tiles. The order of operations is that of attention.hpp, so the bits
// equal those of attention/rows_fma.hpp. Included only by amx_kernels.cpp.
//
// 16 rows at a time: scores of a chunk of 32 keys are two tiles, the probabilities one, and even + odd over
// 32 keys is one TDPBF16PS per 16 dimensions.
#pragma once

#include "kernels/cpu/attention/chunks.hpp"
#include "kernels/cpu/attention/rows_fma.hpp"
#include "kernels/cpu/gemm/tiles_amx.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// The working memory of a row block. Rows are padded to whole tiles.
struct tile_attention {
  attention_state state;   // `query` unused; `sum` and `score` as there
  std::byte* query;        // tiles: [row tiles][key_dim / 32][16][32]
  bfloat16* probabilities; // tiles: [row tiles][16][32]
  std::byte* values;       // of a chunk: [16 pairs of keys][value_dim][2], bf16
  float* fresh;            // [16][value_dim]: a chunk's contribution
};

static tile_attention begin_tile_attention(const attention_block& block) {
  const std::size_t rows = block.tokens * block.group;
  const std::size_t padded = (rows + tile_rows - 1) / tile_rows * tile_rows;
  tile_attention s{};
  s.state.key_dim = (block.head_dim + block_k - 1) / block_k * block_k;
  s.state.value_dim = (block.value_dim + 15) / 16 * 16;
  std::byte* at = block.scratch;
  const auto take = [&](std::size_t num_bytes) {
    std::byte* begin = at;
    at += (num_bytes + 63) / 64 * 64;
    return begin;
  };
  s.query = take(padded * s.state.key_dim * sizeof(bfloat16));
  s.probabilities = reinterpret_cast<bfloat16*>(take(padded * chunk_keys * sizeof(bfloat16)));
  s.values = take(chunk_keys * s.state.value_dim * sizeof(bfloat16));
  s.fresh = reinterpret_cast<float*>(take(tile_rows * s.state.value_dim * sizeof(float)));
  s.state.sum = reinterpret_cast<float*>(take(padded * s.state.key_dim * sizeof(float)));
  s.state.score = reinterpret_cast<float*>(take(padded * chunk_keys * sizeof(float)));
  s.state.largest = reinterpret_cast<float*>(take(padded * sizeof(float)));
  s.state.weight = reinterpret_cast<float*>(take(padded * sizeof(float)));
  s.state.factor = reinterpret_cast<float*>(take(padded * sizeof(float)));
  const std::size_t query_tile = s.state.key_dim / block_k * tile_bytes;
  for (std::size_t t = 0; t < block.tokens; ++t)
    for (std::size_t g = 0; g < block.group; ++g) {
      const std::size_t row = t * block.group + g;
      pack_row_tiles(block.query[t] + bytes_of(block.query_type, g * block.head_dim), block.query_type,
                     block.head_dim, s.query + row / tile_rows * query_tile + row % tile_rows * 64);
      s.state.largest[row] =
          block.sinks != nullptr ? block.sinks[g] : -std::numeric_limits<float>::infinity();
      s.state.weight[row] = block.sinks != nullptr ? 1.0F : 0.0F;
    }
  std::memset(s.state.sum, 0, rows * s.state.key_dim * sizeof(float));
  return s;
}

/// Gathers a chunk's values as one operand.
/// @returns whether all are finite
static bool gather_values(const tile_attention& s, const std::byte* const* tiles) {
  const std::size_t half = tile_tokens * s.state.value_dim * sizeof(bfloat16);
  special_values special;
  for (std::size_t tile = 0; tile < 2; ++tile)
    for (std::size_t i = 0; i < half; i += 64) {
      const __m512i v = _mm512_loadu_si512(tiles[tile] + i);
      special.look_at(v);
      _mm512_storeu_si512(s.values + tile * half + i, v);
    }
  return !special.found();
}

static void score_tile(const tile_attention& s, std::size_t row_tile, const std::byte* const* keys) {
  const std::size_t blocks = s.state.key_dim / block_k;
  const std::byte* query = s.query + row_tile * blocks * tile_bytes;
  finish_stores();
  _tile_zero(0);
  _tile_zero(1);
  for (std::size_t b = 0; b < blocks; ++b) {
    _tile_loadd(4, query + b * tile_bytes, 64);
    _tile_loadd(6, keys[0] + b * tile_bytes, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, keys[1] + b * tile_bytes, 64);
    _tile_dpbf16ps(1, 4, 7);
  }
  float* score = s.state.score + row_tile * tile_rows * chunk_keys;
  _tile_stored(0, score, chunk_keys * sizeof(float));
  _tile_stored(1, score + tile_tokens, chunk_keys * sizeof(float));
}

/// Softmax as in attention/rows_fma.hpp, for the 16 rows of a tile at once.
static void softmax_tile(const tile_attention& s, std::size_t row_tile, const tile_mask& mask,
                         const chunk_scales& scales) {
  const std::size_t row = row_tile * tile_rows;
  float* score = s.state.score + row * chunk_keys;
  bfloat16* p = s.probabilities + row * chunk_keys;
  const vf factor_low = load(scales.score);
  const vf factor_high = load(scales.score + tile_tokens);
  const vf lowest = set1(-std::numeric_limits<float>::infinity());
  const vf before = load(s.state.largest + row);
  alignas(64) float now[tile_rows];
  alignas(64) float sums[tile_rows] = {};
  store(now, before);
  for (std::uint32_t rows = mask.rows; rows != 0; rows &= rows - 1) {
    const auto r = lowest_bit(rows);
    float* x = score + r * chunk_keys;
    const vf low = _mm512_mask_mul_ps(lowest, static_cast<__mmask16>(mask.keys[r]), load(x), factor_low);
    const vf high =
        _mm512_mask_mul_ps(lowest, static_cast<__mmask16>(mask.keys[r] >> 16), load(x + 16), factor_high);
    store(x, low);
    store(x + 16, high);
    const float chunk_max = max_of(v16{{max(low, high)}});
    now[r] = now[r] > chunk_max ? now[r] : chunk_max;
  }
  const vf top = load(now);
  const vf rescale = exp(sub(before, top));
  for (std::uint32_t rows = mask.rows; rows != 0; rows &= rows - 1) {
    const auto r = lowest_bit(rows);
    const float* x = score + r * chunk_keys;
    const vf row_top = set1(now[r]);
    vf low = exp(sub(load(x), row_top));
    vf high = exp(sub(load(x + 16), row_top));
    sums[r] = sum_of(v16{{add(low, high)}});
    if (scales.has_values) { // may be NaN if the row does not see them
      low = _mm512_maskz_mul_ps(static_cast<__mmask16>(mask.keys[r]), low, load(scales.value));
      high = _mm512_maskz_mul_ps(static_cast<__mmask16>(mask.keys[r] >> 16), high,
                                 load(scales.value + tile_tokens));
    }
    store_bf16(p + r * chunk_keys, low);
    store_bf16(p + r * chunk_keys + 16, high);
  }
  const vf weight = load(s.state.weight + row);
  _mm512_mask_storeu_ps(s.state.largest + row, mask.rows, top);
  _mm512_mask_storeu_ps(s.state.factor + row, mask.rows, rescale);
  _mm512_mask_storeu_ps(s.state.weight + row, mask.rows, fma(weight, rescale, load(sums)));
}

/// sum = fma(sum, factor, even + odd) for the rows of a tile that see any key.
///
/// Keys that a row does not see have probability 0 and are multiplied all the same. With finite values that
/// changes no bit: a sum that starts from +0 can only turn from −0 into +0, and the last addition to C = +0
/// makes either of them +0.
static void add_values(const tile_attention& s, std::size_t row_tile, const tile_mask& mask,
                       const std::byte* const* tiles, bool finite) {
  const std::size_t row = row_tile * tile_rows;
  const std::size_t value_dim = s.state.value_dim;
  const std::size_t stride = value_dim * sizeof(float);
  finish_stores();
  _tile_loadd(4, s.probabilities + row * chunk_keys, 64);
  for (std::size_t d = 0; d < value_dim; d += 16) {
    _tile_zero(0);
    _tile_loadd(6, s.values + d * 4, stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_stored(0, s.fresh + d, stride);
  }
  const std::uint32_t slow = finite ? 0U : mask.partial;
  for (std::uint32_t rows = mask.rows & ~slow; rows != 0; rows &= rows - 1) {
    const auto r = lowest_bit(rows);
    const vf factor = set1(s.state.factor[row + r]);
    float* sum = s.state.sum + (row + r) * s.state.key_dim;
    const float* fresh = s.fresh + r * value_dim;
    for (std::size_t d = 0; d < value_dim; d += lanes)
      store(sum + d, fma(load(sum + d), factor, load(fresh + d)));
  }
  for (std::uint32_t rows = slow; rows != 0; rows &= rows - 1) {
    const auto r = lowest_bit(rows);
    const bfloat16* p = s.probabilities + (row + r) * chunk_keys;
    store16(s.state.score + (row + r) * chunk_keys, load16(p));
    store16(s.state.score + (row + r) * chunk_keys + 16, load16(p + 16));
    const auto first = lowest_bit(mask.keys[r]);
    const auto end = std::size_t{32} - static_cast<std::size_t>(__builtin_clz(mask.keys[r]));
    values_of_part(s.state, row + r, tiles, first, end, dtype::bf16);
  }
}

static void tile_attention_block(const attention_block& block) {
  const tile_attention s = begin_tile_attention(block);
  const std::size_t rows = block.tokens * block.group;
  const bool is_int8 = block.cache_type == dtype::int8;
  paired_chunk paired; // for integers
  const tile_session session(tile_rows);
  for_each_chunk(block, [&](std::size_t begin, const std::byte* const* keys, const std::byte* const* values) {
    const chunk_scales scales(block, keys, values, s.state.key_dim, s.state.value_dim);
    if (is_int8) {
      paired.pair(keys, values, s.state.key_dim, s.state.value_dim);
      keys = paired.keys;
      values = paired.values;
    }
    const bool finite = gather_values(s, values);
    for (std::size_t row = 0; row < rows; row += tile_rows) {
      const tile_mask mask = mask_of(block, row, smaller(tile_rows, rows - row), begin);
      if (mask.rows == 0)
        continue;
      score_tile(s, row / tile_rows, keys);
      softmax_tile(s, row / tile_rows, mask, scales);
      add_values(s, row / tile_rows, mask, values, finite);
    }
  });
  finish_attention(block, s.state);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
