// The chunks of keys that a row block sees, the visible keys of each row of a tile of 16, and whether a
// chunk's values are finite. Included only by the attention of tiles and of columns.
#pragma once

#include "kernels/cpu/attention/kv_int8.hpp"
#include "kernels/cpu/attention/latent_values.hpp"
#include "kernels/cpu/attention/state.hpp"
#include "kernels/cpu/gemm/row_tiles.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

TROUPE_INLINE std::size_t lowest_bit(std::uint32_t bits) {
  return static_cast<std::size_t>(__builtin_ctz(bits));
}

/// Records values that are not finite.
class special_values {
 public:
  inline __attribute__((always_inline)) void look_at(__m512i values) {
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    found_ |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(values, exponent), exponent);
  }

  inline __attribute__((always_inline)) bool found() const { return found_ != 0; }

 private:
  __mmask32 found_ = 0;
};

/// The visible keys of a chunk for each row of a tile: bit k for key k.
struct tile_mask {
  std::uint32_t keys[tile_rows];
  __mmask16 rows;    // rows that see any key
  __mmask16 partial; // rows that see some keys but not all
};

/// @param begin  the chunk's first key
static tile_mask mask_of(const attention_block& block, std::size_t first_row, std::size_t rows,
                         std::size_t begin) {
  tile_mask mask{};
  const std::size_t first_token = first_row / block.group;
  const std::size_t last_token = (first_row + rows - 1) / block.group;
  bool all = true; // the common case: rows see the whole chunk
  for (std::size_t t = first_token; t <= last_token; ++t)
    all = all && block.first_key[t] <= begin && block.end_key[t] >= begin + chunk_keys;
  if (all) {
    for (std::size_t r = 0; r < rows; ++r)
      mask.keys[r] = 0xffffffffU;
    mask.rows = static_cast<__mmask16>((1U << rows) - 1);
    return mask;
  }
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t t = (first_row + r) / block.group;
    const std::size_t first = block.first_key[t] > begin ? block.first_key[t] - begin : 0;
    const std::size_t end = block.end_key[t] > begin ? block.end_key[t] - begin : 0;
    std::uint64_t keys = end >= chunk_keys ? 0xffffffffU : (std::uint64_t{1} << end) - 1;
    keys = first >= chunk_keys ? 0 : keys >> first << first;
    mask.keys[r] = static_cast<std::uint32_t>(keys);
    if (mask.keys[r] != 0)
      mask.rows = static_cast<__mmask16>(mask.rows | 1U << r);
    if (mask.keys[r] != 0 && mask.keys[r] != 0xffffffffU)
      mask.partial = static_cast<__mmask16>(mask.partial | 1U << r);
  }
  return mask;
}

/// Factors of a chunk's scores and, with an int8 cache, of its probabilities.
struct chunk_scales {
  alignas(64) float score[chunk_keys];
  alignas(64) float value[chunk_keys];
  bool has_values;

  inline __attribute__((always_inline))
  chunk_scales(const attention_block& block, const std::byte* const* keys, const std::byte* const* values,
               std::size_t key_dim, std::size_t value_dim)
      : has_values(block.cache_type == dtype::int8) {
    const score_scales scores(block, keys, key_dim);
    store16(score, scores.low);
    store16(score + tile_tokens, scores.high);
    if (!has_values)
      return;
    for (std::size_t tile = 0; tile < 2; ++tile)
      store16(value + tile * tile_tokens, load16(scales_of_tile(values[tile], value_dim)));
  }
};

/// Calls `function(begin, keys, values)`, in order, for every chunk that a token of the block sees, with its
/// first key and two tiles each of keys and values.
template <class Function>
TROUPE_INLINE void for_each_chunk(const attention_block& block, const Function& function) {
  const seen_keys seen(block);
  for (std::size_t begin = seen.begin; begin < seen.end; begin += chunk_keys) {
    chunk_tiles tiles(block, begin);
    make_latent_values(block, tiles);
    function(begin, tiles.keys, tiles.values);
  }
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
