// The working state of attention of one row block. Included only by attention/rows_fma.hpp and its parts.
#pragma once

#include <cstddef>

#include "kernels/cpu/simd/simd.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t chunk_keys = attention_chunk;
constexpr std::size_t tile_tokens = 16;

/// State of a row block between chunks, and for the chunks of a span. Row r is head r % group of token r /
/// group.
struct attention_state {
  std::size_t rows = 0;      // padded to 16
  std::size_t key_dim = 0;   // head_dim padded to 32: stride of `query`, rows for products
  std::size_t value_dim = 0; // head_dim padded to 16
  float* query = nullptr;
  float* sum = nullptr;     // [rows][key_dim], the unnormalised output
  float* largest = nullptr; // [rows]: m
  float* weight = nullptr;  // [rows]: l
  float* score = nullptr;   // [span][rows][32]: scores, then probabilities (bf16: rounded)
  float* top = nullptr;     // [span][rows]: m' of a chunk
  float* factor = nullptr;  // [span][rows]: exp(m − m') of a chunk
  // Space for a tile of keys and for a chunk's values in another form: widened for many rows, as BF16 pairs,
  // or with zeros where invisible.
  float* keys = nullptr;   // [key_dim][16]
  float* values = nullptr; // [value_dim / 16][32][16]

  /// With the scores, maxima and factors of one chunk of a span.
  attention_state of_chunk(std::size_t chunk) const {
    attention_state s = *this;
    s.score += chunk * rows * chunk_keys;
    s.top += chunk * rows;
    s.factor += chunk * rows;
    return s;
  }
};

/// The keys that a token of a block sees, from the start of a chunk: [begin, end).
struct seen_keys {
  std::size_t begin = static_cast<std::size_t>(-1);
  std::size_t end = 0;

  explicit seen_keys(const attention_block& block) {
    for (std::size_t t = 0; t < block.tokens; ++t) {
      begin = smaller(begin, block.first_key[t]);
      end = larger(end, block.end_key[t]);
    }
    begin = begin / chunk_keys * chunk_keys;
  }
};

/// The tiles of the chunk whose first key is `begin`. A chunk's second tile may not exist yet; then no row
/// sees it, and the first stands in for it.
struct chunk_tiles {
  const std::byte* keys[2];
  const std::byte* values[2];

  chunk_tiles() = default;

  chunk_tiles(const attention_block& block, std::size_t begin) {
    const std::size_t first = begin / tile_tokens;
    const std::size_t second = first + 1 < block.num_tiles ? first + 1 : first;
    keys[0] = block.key_tiles[first];
    keys[1] = block.key_tiles[second];
    if (block.value_tiles == nullptr) {
      values[0] = values[1] = nullptr; // until `make_latent_values`
      return;
    }
    values[0] = block.value_tiles[first];
    values[1] = block.value_tiles[second];
  }
};

/// Prefetches two tiles of a span, evenly over the steps of a product.
class tile_fetch {
 public:
  tile_fetch() = default;

  /// @param bytes  of each tile
  tile_fetch(const std::byte* const* tiles, std::size_t bytes)
      : tiles_{tiles[0], tiles[1]}, lines_(2 * bytes / line_bytes) {}

  /// The next line, alternating between the tiles.
  inline __attribute__((always_inline)) void step() {
    if (line_ == lines_)
      return;
    __builtin_prefetch(tiles_[line_ % 2] + line_ / 2 * line_bytes, 0, 2);
    ++line_;
  }

  inline __attribute__((always_inline)) void steps(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      step();
  }

  /// All remaining lines.
  void rest() { steps(lines_ - line_); }

 private:
  static constexpr std::size_t line_bytes = 64;

  const std::byte* tiles_[2] = {};
  std::size_t lines_ = 0;
  std::size_t line_ = 0;
};

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
