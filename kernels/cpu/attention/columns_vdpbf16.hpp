// Products on dot products of BF16 for attention in columns. Included only by avx512_bf16_kernels.cpp.
#pragma once

#include "kernels/cpu/attention/columns.hpp"
#include "kernels/cpu/gemm/dots_vdpbf16.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// See `column_attention_block`. Queries and probabilities of 16 rows act as ordered weights; keys and
/// dimensions of values act as rows.
class dot_columns {
 public:
  dot_columns(const column_attention& s, const attention_block& block) : s_(s), blocks_(s.key_dim / block_k) {
    const std::size_t tiles = (block.tokens * block.group + tile_rows - 1) / tile_rows;
    order_in_place(s.query, tiles * blocks_);
  }

  bool begin_chunk(dtype type, const std::byte* const* keys, const std::byte* const* values) {
    if (type == dtype::int8) {
      for (std::size_t tile = 0; tile < 2; ++tile)
        for (std::size_t i = 0; i < blocks_ * dots_of_half; ++i) {
          std::byte* block = s_.keys + (tile * blocks_ + i / dots_of_half) * panel_block_bytes;
          store_int8_dots(keys[tile] + 4 * i * tile_tokens, tile_tokens, block, i % dots_of_half);
        }
      for (std::size_t d = 0; d < s_.value_dim; d += 16)
        for (std::size_t i = 0; i < dots_of_half; ++i)
          store_int8_dots(values[i / 4] + i % 4 * 4 * s_.value_dim + d, s_.value_dim, s_.values + d * 64, i);
      return true;
    }
    order_dots(keys[0], blocks_, s_.keys);
    order_dots(keys[1], blocks_, s_.keys + blocks_ * panel_block_bytes);
    special_values special;
    for (std::size_t d = 0; d < s_.value_dim; d += 16)
      for (std::size_t i = 0; i < dots_of_half; ++i) {
        // Pairs of keys 4 i and 4 i + 2: eight pairs to a tile.
        const std::byte* pairs = values[i / 4] + (i % 4 * 2 * s_.value_dim + d) * 4;
        const vi first = load_pairs(pairs);
        const vi second = load_pairs(pairs + s_.value_dim * 4);
        special.look_at(first);
        special.look_at(second);
        store_dots(first, second, s_.values + d * 64, i);
      }
    return !special.found();
  }

  void scores(const std::byte* query, std::size_t tiles) {
    for (std::size_t tile = 0; tile < tiles; ++tile, query += blocks_ * panel_block_bytes)
      for (std::size_t key = 0; key < chunk_keys; key += columns) {
        const std::byte* keys =
            s_.keys + key / tile_tokens * blocks_ * panel_block_bytes + key % tile_tokens * 4;
        float* score = s_.score + (tile * chunk_keys + key) * tile_rows;
        for (std::size_t b = 0; b < blocks_; ++b)
          dot_block<columns>(column_dots{keys + b * panel_block_bytes},
                             ordered_dots{query + b * panel_block_bytes},
                             [&](std::size_t, std::size_t k, vf sum) {
                               const vf before = b == 0 ? set1(0.0F) : load(score + k * tile_rows);
                               store(score + k * tile_rows, add(before, sum));
                             });
      }
  }

  void begin_values() { order_in_place(s_.probabilities, 2); }

  void add_values(std::size_t row, std::size_t tile, vf factor, __mmask16 rows) {
    const ordered_dots probabilities{s_.probabilities + tile * tile_bytes};
    for (std::size_t d = 0; d < s_.value_dim; d += columns) {
      float* sums = s_.sum + row * s_.value_dim + d * tile_rows;
      dot_block<columns>(column_dots{s_.values + d / 16 * panel_block_bytes + d % 16 * 4}, probabilities,
                         [&](std::size_t, std::size_t i, vf sum) {
                           float* to = sums + i * tile_rows;
                           store(to, _mm512_mask_fmadd_ps(load(to), rows, factor, add(set1(0.0F), sum)));
                         });
    }
  }

 private:
  static constexpr std::size_t columns = 8;

  /// Stores four rows of integers as vector `i` of either half of an ordered block.
  TROUPE_INLINE void store_int8_dots(const std::byte* rows, std::size_t stride, std::byte* block,
                                     std::size_t i) {
    vi even;
    vi odd;
    int8_dots(rows, stride, even, odd);
    _mm512_store_si512(block + i * vector_bytes, even);
    _mm512_store_si512(block + (dots_of_half + i) * vector_bytes, odd);
  }

  const column_attention& s_;
  std::size_t blocks_; // of 32 dimensions of a key
};

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
