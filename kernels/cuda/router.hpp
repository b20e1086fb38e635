// From normalised rows, or from logits, to the chosen experts and their weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bfloat16.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/router.hpp"

namespace troupe::kernels::cuda {

/// Experts that a row may choose at most, and choose from.
inline constexpr std::size_t most_top_k = 64;
inline constexpr std::size_t most_experts = 1024;

/// Pointers are to device memory. Fields without a comment mean what they mean in `kernels::router_args`.
struct router_args {
  std::size_t rows = 0;
  std::size_t experts = 0;
  /// [rows, hidden], bf16, `input_stride` apart; used with `weight`.
  const bfloat16* input = nullptr;
  std::size_t input_stride = 0;
  /// A multiple of 8.
  std::size_t hidden = 0;
  /// [experts, hidden], bf16, 16-byte aligned; null: `logits` are given.
  const bfloat16* weight = nullptr;
  /// [rows, experts], f32: read, and with `weight` written before.
  float* logits = nullptr;
  std::size_t top_k = 0;
  router_score score = router_score::softmax;
  bool renormalise = false;
  float scale = 1.0F;
  /// [experts] or null.
  const float* choice_bias = nullptr;
  /// [rows, top_k], best first; equal scores: lower index first.
  std::uint32_t* chosen = nullptr;
  /// [rows, top_k].
  float* weights = nullptr;
};

/// Logits first, an expert a warp; then a block a row chooses. A logit's bits depend on its row and the
/// expert's weights alone.
/// @source DeepSpeed-Inference § V.C: the gate without a chain of sparse products; but a single kernel would
///         leave all experts of a row to one multiprocessor
void route(const stream& on, const router_args& args);

} // namespace troupe::kernels::cuda
