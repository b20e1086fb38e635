// Weights in the layout that the GPU's kernels stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/bfloat16.hpp"
#include "kernels/cuda/fragments.hpp"

namespace troupe::kernels::cuda {

/// Memory layout of the weights of a matrix [outputs, inputs]. Inputs must be a multiple of 8.
enum class weight_format : std::uint8_t {
  /// Row-major, as in checkpoints; libraries for many rows take it, too. A lane's runs (fragments.hpp) are 16
  /// bytes of it.
  bf16 = 0,
  /// Biased unsigned bytes (dequantize.hpp), [strip][chunk][half][lane][16 bytes]: the lane's run `half` of
  /// both its channels, words (step, channel) in rising order. Zeros pad channels to 16 and inputs to 64.
  int8 = 1,
  /// Biased unsigned half bytes, [strip][chunk][lane][16 bytes]: a word per step. Group scales are separate,
  /// [strip][chunk][8 g][4 bytes], one for each 32 inputs of a channel: (half 0, channel g), (half 0, g + 8),
  /// (half 1, g), (half 1, g + 8), in the layout of `int8_word`.
  int4 = 2,
};

/// "bf16", "int8" or "int4".
const char* name_of(weight_format format);

struct weight_shape {
  weight_format format = weight_format::bf16;
  std::size_t outputs = 0;
  std::size_t inputs = 0;

  TROUPE_BOTH constexpr std::size_t strips() const { return (outputs + strip_channels - 1) / strip_channels; }

  TROUPE_BOTH constexpr std::size_t chunks() const { return (inputs + chunk_inputs - 1) / chunk_inputs; }

  /// Bytes of the weights, and of the words with group scales (int4).
  constexpr std::size_t weight_bytes() const {
    switch (format) {
    case weight_format::bf16:
      return outputs * inputs * sizeof(bfloat16);
    case weight_format::int8:
      return strips() * chunks() * strip_channels * chunk_inputs;
    case weight_format::int4:
      return strips() * chunks() * strip_channels * chunk_inputs / 2;
    }
    return 0;
  }

  constexpr std::size_t group_scale_words() const {
    return format == weight_format::int4 ? strips() * chunks() * 8 : 0;
  }

  friend bool operator==(const weight_shape&, const weight_shape&) = default;
};

/// One matrix in device memory; passed to kernels by value or in tables.
struct weight_matrix {
  /// In the layout of `weight_format`, 16-byte aligned.
  const void* weights = nullptr;
  /// int4: group scales, 16-byte aligned.
  const std::uint32_t* group_scales = nullptr;
  /// [outputs]: multiplied with the sum; null: 1 (bf16).
  const float* channel_scales = nullptr;
  /// [outputs], added after that; null: none.
  const float* bias = nullptr;
};

/// Packs integers [outputs, inputs], row-major, each −127 … 127 (int8).
/// @param out  `shape.weight_bytes()`
/// @throws kernel_error  sizes do not fit the shape
void pack_int8(const weight_shape& shape, std::span<const std::int8_t> integers, std::span<std::byte> out);

/// Packs integers −8 … 7 [outputs, inputs] (int4) with their group scales.
/// @param group         inputs that share a scale: 32 or 64; 0: none, and all scales are 1
/// @param group_scales  [outputs, ⌈inputs / group⌉], −15 … 15; empty if `group` is 0
/// @param out           `shape.weight_bytes()`
/// @param scale_words   `shape.group_scale_words()`
/// @throws kernel_error  sizes do not fit the shape
void pack_int4(const weight_shape& shape, std::span<const std::int8_t> integers, std::size_t group,
               std::span<const std::int8_t> group_scales, std::span<std::byte> out,
               std::span<std::uint32_t> scale_words);

} // namespace troupe::kernels::cuda
