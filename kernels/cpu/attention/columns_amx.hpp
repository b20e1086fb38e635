// Products on AMX tiles for attention in columns. Included only by amx_kernels.cpp.
#pragma once

#include "kernels/cpu/attention/columns.hpp"
#include "kernels/cpu/gemm/tiles_amx.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// Transposes a chunk's keys and values.
/// @returns whether all values are finite
static bool transpose_chunk(const column_attention& s, dtype type, const std::byte* const* keys,
                            const std::byte* const* values) {
  paired_chunk paired; // for integers
  if (type == dtype::int8) {
    paired.pair(keys, values, s.key_dim, s.value_dim);
    keys = paired.keys;
    values = paired.values;
  }
  std::byte* to = s.keys;
  for (std::size_t tile = 0; tile < 2; ++tile)
    for (std::size_t b = 0; b < s.key_dim / block_k; ++b, to += tile_bytes)
      transpose_16([&](std::size_t i) { return keys[tile] + b * tile_bytes + i * 64; }, to, 64);
  for (std::size_t d = 0; d < s.value_dim; d += 16)
    transpose_16([&](std::size_t i) { return values[i / 8] + (i % 8 * s.value_dim + d) * 4; },
                 s.values + d * 64, 64);
  special_values special;
  for (std::size_t d = 0; d < s.value_dim; ++d)
    special.look_at(_mm512_load_si512(s.values + d * 64));
  return !special.found();
}

/// Scores of two tiles of rows, [key][row], unscaled. In four tile registers, like all products of many rows
/// (gemm/tiles_amx.hpp); sums stay in registers until the next ones need these.
TROUPE_INLINE void score_columns(const column_attention& s, const std::byte* query, std::size_t query_tile) {
  const std::size_t keys_tile = s.key_dim / block_k * tile_bytes;
  float* second = s.score + chunk_keys * tile_rows;
  finish_stores();
  for (std::size_t half = 0; half < 2; ++half) {
    const std::byte* keys = s.keys + half * keys_tile;
    for (std::size_t offset = 0; offset < keys_tile; offset += tile_bytes) {
      _tile_loadd(4, keys + offset, 64);
      _tile_loadd(6, query + offset, 64);
      if (offset == 0) {
        if (half != 0)
          _tile_stored(0, s.score, 64);
        _tile_zero(0);
      }
      _tile_dpbf16ps(0, 4, 6);
      TROUPE_RELEASE_TILE(6);
      _tile_loadd(6, query + query_tile + offset, 64);
      if (offset == 0) {
        if (half != 0)
          _tile_stored(1, second, 64);
        _tile_zero(1);
      }
      _tile_dpbf16ps(1, 4, 6);
      TROUPE_RELEASE_TILE(6);
      TROUPE_RELEASE_TILE(4);
    }
  }
  _tile_stored(0, s.score + sums_of_tile, 64);
  _tile_stored(1, second + sums_of_tile, 64);
  finish_stores();
}

/// A chunk's contribution to two tiles of rows: even + odd.
TROUPE_INLINE void multiply_values(const column_attention& s) {
  float* second = s.fresh + s.value_dim * tile_rows;
  finish_stores();
  for (std::size_t d = 0; d < s.value_dim; d += 16) {
    _tile_loadd(4, s.values + d * 64, 64);
    _tile_loadd(6, s.probabilities, 64);
    if (d != 0)
      _tile_stored(0, s.fresh + (d - 16) * tile_rows, 64);
    _tile_zero(0);
    _tile_dpbf16ps(0, 4, 6);
    TROUPE_RELEASE_TILE(6);
    _tile_loadd(6, s.probabilities + tile_bytes, 64);
    if (d != 0)
      _tile_stored(1, second + (d - 16) * tile_rows, 64);
    _tile_zero(1);
    _tile_dpbf16ps(1, 4, 6);
    TROUPE_RELEASE_TILE(6);
    TROUPE_RELEASE_TILE(4);
  }
  _tile_stored(0, s.fresh + (s.value_dim - 16) * tile_rows, 64);
  _tile_stored(1, second + (s.value_dim - 16) * tile_rows, 64);
  finish_stores();
}

/// See `column_attention_block`.
class tile_columns {
 public:
  tile_columns(const column_attention& s, const attention_block& /*block*/) : s_(s), session_(tile_rows) {}

  bool begin_chunk(dtype type, const std::byte* const* keys, const std::byte* const* values) {
    return transpose_chunk(s_, type, keys, values);
  }

  void scores(const std::byte* query, std::size_t tiles) {
    score_columns(s_, query, tiles == 2 ? s_.key_dim / block_k * tile_bytes : 0);
  }

  void begin_values() { multiply_values(s_); }

  void add_values(std::size_t row, std::size_t tile, vf factor, __mmask16 rows) {
    float* sum = s_.sum + row * s_.value_dim;
    const float* fresh = s_.fresh + tile * s_.value_dim * tile_rows;
    for (std::size_t d = 0; d < s_.value_dim * tile_rows; d += tile_rows)
      store(sum + d, _mm512_mask_fmadd_ps(load(sum + d), rows, factor, load(fresh + d)));
  }

 private:
  const column_attention& s_;
  tile_session session_;
};

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
