// Processes queries, keys and values between their product and attention, in one kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bfloat16.hpp"
#include "kernels/cuda/annotations.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kv_layout.hpp"
#include "kernels/rope.hpp"

namespace troupe::kernels::cuda {

/// A norm over queries or keys.
struct head_norm {
  /// [head_dim], or over whole rows [heads · head_dim]; null: none.
  const float* weight = nullptr;
  /// True: per head; false: over all heads of the row together.
  bool per_head = true;
  /// With a null `weight`: a norm whose weights are all 1.
  bool weightless = false;

  TROUPE_BOTH constexpr bool is_there() const { return weight != nullptr || weightless; }
};

/// Pointers are to device memory.
struct qkv_args {
  /// [rows, (heads + 2 kv_heads) · head_dim], f32, `stride` elements apart: queries, keys, values.
  const float* qkv = nullptr;
  std::size_t stride = 0;
  std::size_t rows = 0;
  std::size_t heads = 0;
  /// [(heads + 2 kv_heads) · head_dim], or null.
  const float* bias = nullptr;
  head_norm query_norm{};
  head_norm key_norm{};
  float epsilon = 1e-6F;
  /// Norms follow the rotation; only per head.
  bool norms_last = false;
  /// [positions, rotary_dim / 2], f32 (`kernels::rope_table`); null: no rotation.
  const float* cosines = nullptr;
  const float* sines = nullptr;
  std::size_t num_positions = 0;
  /// Even, at most head_dim.
  std::size_t rotary_dim = 0;
  rope_style style = rope_style::rotate_half;
  /// The first element of a head that rotates.
  std::size_t rotary_first = 0;
  /// [num_positions], f32, with which queries are multiplied last (`kernels::query_factors`); null: none.
  const float* query_factors = nullptr;
  /// [rows], below `num_positions`.
  const std::uint32_t* positions = nullptr;
  /// [rows]: destination of keys and values, block · block_tokens + place in the block; no slot twice.
  const std::uint32_t* slots = nullptr;
  kv_layer cache;
  /// [rows, heads · head_dim], bf16, dense.
  bfloat16* query = nullptr;
};

/// Bias, norms, rotation and factors in FP32; queries are rounded to bf16, keys and values to the cache's
/// type. A row's bits depend on the row alone.
void finish_qkv(const stream& on, const qkv_args& args);

} // namespace troupe::kernels::cuda
