// From router logits to the table of which row goes to which expert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/context.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// What turns logits into scores.
enum class router_score : std::uint8_t {
  softmax,           ///< over all experts, then top-k (Mixtral, OLMoE, Qwen-MoE)
  softmax_of_chosen, ///< top-k of the logits, then softmax over the chosen (gpt-oss)
  sigmoid,           ///< per expert (DeepSeek-V3 style)
};

struct router_args {
  /// [rows, experts], f32: the product with the router's weights.
  const_tensor_view logits;
  /// Experts per row, at most 64 and at most `experts`.
  std::size_t top_k = 0;
  router_score score = router_score::softmax;
  /// Divide the chosen scores by their sum (`norm_topk_prob`).
  bool renormalise = false;
  /// Multiplied last (`routed_scaling_factor`).
  float scale = 1.0F;
  /// [experts], added to scores for the choice only (DeepSeek-V3's `e_score_correction_bias`); null: none.
  const float* choice_bias = nullptr;
  /// [rows, top_k]: chosen experts, best first; equal scores: lower index first.
  std::span<std::uint32_t> experts;
  /// [rows, top_k]: their weights, f32.
  std::span<float> weights;
};

/// Scores in f32, top-k, weights.
void route(context& ctx, const router_args& args);

/// Which (row, slot) pairs each expert has: a counting sort, stable in the row's order.
struct expert_table_args {
  /// [rows, top_k] as `route` wrote them.
  std::span<const std::uint32_t> experts;
  std::size_t num_experts = 0;
  /// [num_experts + 1]: the pairs of expert e are entries offsets[e] to offsets[e + 1].
  std::span<std::uint32_t> offsets;
  /// [rows · top_k]: row · top_k + slot, sorted by expert.
  std::span<std::uint32_t> entries;
};

void build_expert_table(const expert_table_args& args);

} // namespace troupe::kernels
