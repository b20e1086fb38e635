// Routing: from normalised rows, or from logits, to the chosen experts and their weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bfloat16.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/router.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels::cuda {

/// Most experts that a row may choose, and choose from.
inline constexpr std::size_t most_top_k = 64;
inline constexpr std::size_t most_experts = 1024;

/// Pointers are to device memory. Fields without a comment are those of `kernels::router_args`.
struct router_args {
  std::size_t rows = 0;
  std::size_t experts = 0;
  /// [rows, hidden], bf16, `input_stride` apart; used with `weight`.
  const bfloat16* input = nullptr;
  std::size_t input_stride = 0;
  /// A multiple of 8.
  std::size_t hidden = 0;
  /// [experts, hidden], 16-byte aligned; null: `logits` are given.
  const void* weight = nullptr;
  /// bf16 or f32.
  dtype weight_type = dtype::bf16;
  /// [experts], f32, added to the product with `weight`; or null.
  const float* bias = nullptr;
  /// [rows, experts], f32: input; with `weight` computed first.
  float* logits = nullptr;
  std::size_t top_k = 0;
  router_score score = router_score::softmax;
  float jitter = 0.0F;
  bool renormalise = false;
  float sum_offset = 0.0F;
  float least_sum = 0.0F;
  float scale = 1.0F;
  /// [experts] or null.
  const float* choice_bias = nullptr;
  expert_groups groups{};
  /// [rows, top_k], best first; equal scores: lower index first.
  std::uint32_t* chosen = nullptr;
  /// [rows, top_k].
  float* weights = nullptr;
};

/// Computes the logits, one expert per warp; then one block per row chooses. A logit's bits depend on its row
/// and the expert's weights alone.
/// @source DeepSpeed-Inference § V.C: the gate without a chain of sparse products; but a single kernel would
/// leave all experts of a row to one multiprocessor
void route(const stream& on, const router_args& args);

} // namespace troupe::kernels::cuda
