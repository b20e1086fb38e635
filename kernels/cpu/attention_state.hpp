// What attention of one row block keeps. Included by attention_kernels.hpp and its parts only.
#pragma once

#include <cstddef>

#include "kernels/cpu/simd.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t chunk_keys = 32;
constexpr std::size_t tile_tokens = 16;

/// What a row block keeps between chunks. Row r is head r % group of token r /
/// group.
struct attention_state {
  std::size_t key_dim = 0;   // head_dim padded to 32: stride of `query`, rows for products
  std::size_t value_dim = 0; // head_dim padded to 16
  float* query = nullptr;
  float* sum = nullptr;     // [rows][key_dim], the unnormalised output
  float* score = nullptr;   // [rows][32]: scores, then probabilities (bf16: rounded)
  float* largest = nullptr; // [rows]
  float* weight = nullptr;  // [rows]: l
  float* factor = nullptr;  // [rows]: exp(m − m') of this chunk
  float* keys = nullptr;    // [key_dim][16]: a tile of keys that is widened for many rows
  float* values = nullptr;  // [value_dim / 16][32][16]: a chunk's values, likewise
};

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
