// Routing: from router logits to the table of each expert's rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/context.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// How logits become scores.
enum class router_score : std::uint8_t {
  softmax,           ///< over all experts, then top-k (Mixtral, OLMoE, Qwen-MoE)
  softmax_of_chosen, ///< top-k of the logits, then softmax over the chosen (gpt-oss)
  sigmoid,           ///< per expert (DeepSeek-V3 style)
  sparsemixer,       ///< each of the best two by the softmax of the logits near its own (Phi-MoE)
};

/// What ranks groups of experts.
enum class group_rank : std::uint8_t {
  largest,    ///< the best member (DeepSeek-V2)
  sum_of_two, ///< the sum of the best two members (DeepSeek-V3)
};

inline constexpr std::size_t most_expert_groups = 64;

/// Neighbouring experts form groups of equal size, and only members of the best groups can be chosen.
struct expert_groups {
  /// 1 (no groups) to 64; divides the number of experts.
  std::size_t count = 1;
  /// The groups that stay; they have at least `top_k` members together. Equal ranks: lower index first.
  std::size_t kept = 1;
  group_rank rank = group_rank::largest;

  constexpr bool fit(std::size_t experts, std::size_t top_k) const {
    return count >= 1 && count <= most_expert_groups && experts % count == 0 && kept <= count
           && kept * (experts / count) >= top_k
           && (count == 1 || rank == group_rank::largest || experts / count >= 2);
  }
};

struct router_args {
  /// [rows, experts], f32: the product with the router's weights. Where these are FP32, `gemm` takes bf16
  /// rows as they are.
  const_tensor_view logits;
  /// Experts per row, at most 64 and at most `experts`.
  std::size_t top_k = 0;
  router_score score = router_score::softmax;
  /// sparsemixer: a logit ℓ is near the best one m if (m − ℓ) / max(|ℓ|, m) ≤ 2 · `jitter`
  /// (`router_jitter_noise`). `top_k` is 2, without groups and bias.
  float jitter = 0.0F;
  /// Divide the chosen scores by max(Σ + `sum_offset`, `least_sum`), Σ being their sum (`norm_topk_prob`).
  bool renormalise = false;
  /// DeepSeek-V3: 1e-20.
  float sum_offset = 0.0F;
  /// ERNIE: 1e-12 (`moe_norm_min`).
  float least_sum = 0.0F;
  /// Factor applied last (`routed_scaling_factor`).
  float scale = 1.0F;
  /// [experts], added to scores for the choice only (DeepSeek-V3's `e_score_correction_bias`); null: none.
  const float* choice_bias = nullptr;
  /// Ranked by scores with that bias.
  expert_groups groups{};
  /// [rows, top_k]: chosen experts, best first; equal scores: lower index first.
  std::span<std::uint32_t> experts;
  /// [rows, top_k]: their weights, f32.
  std::span<float> weights;
};

/// Scores in f32, with bias and groups the choice of the top k, then their weights. Experts of other groups
/// count as −∞.
void route(context& ctx, const router_args& args);

/// The (row, slot) pairs of each expert: a counting sort, stable in the rows' order.
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
