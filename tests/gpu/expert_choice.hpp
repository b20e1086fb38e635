// Compares two choices of experts, except for the last bits of exp, which differ between CUDA and the CPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/router.hpp"

namespace troupe::gpu_check {

/// A row's scores, in double: the basis of its weights and, except for bias and groups, of the choice.
inline std::vector<double> expert_scores(std::span<const float> logits, kernels::router_score score) {
  std::vector<double> scores(logits.begin(), logits.end());
  if (score == kernels::router_score::softmax) {
    const double most = *std::max_element(scores.begin(), scores.end());
    double sum = 0.0;
    for (double& s : scores)
      sum += s = std::exp(s - most);
    for (double& s : scores)
      s /= sum;
  } else if (score == kernels::router_score::sigmoid) {
    for (double& s : scores)
      s = 1.0 / (1.0 + std::exp(-s));
  }
  return scores;
}

/// Relative distance of keys within which two implementations of exp may choose differently: 4 ulp of FP32,
/// twice, rounded up. Logits are the same on both sides.
inline double nearness_of(kernels::router_score score) {
  const bool is_by_logits =
      score == kernels::router_score::softmax_of_chosen || score == kernels::router_score::sparsemixer;
  return is_by_logits ? 0.0 : 1e-6;
}

/// Whether experts in `got` equal those in `want`, best first, except for pairs whose keys differ by less
/// than `near`. For equal keys, the lower index is first on both sides: no other order is allowed.
/// @param keys  of all experts
inline bool is_same_choice(std::span<const std::uint32_t> got, std::span<const std::uint32_t> want,
                           std::span<const double> keys, double near) {
  if (got.size() != want.size())
    return false;
  std::vector<bool> seen(keys.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] >= keys.size() || seen[got[i]])
      return false;
    seen[got[i]] = true;
    if (got[i] == want[i])
      continue;
    const double mine = keys[got[i]];
    const double other = keys[want[i]];
    if (mine == other || !(std::abs(mine - other) < near * std::max(std::abs(mine), std::abs(other))))
      return false;
  }
  return true;
}

/// The weights of chosen experts; not for softmax_of_chosen and sparsemixer.
inline std::vector<float> weights_of(std::span<const std::uint32_t> chosen, std::span<const double> scores,
                                     bool renormalise, double scale) {
  const double sum = renormalise
                         ? std::accumulate(chosen.begin(), chosen.end(), 0.0,
                                           [&](double so_far, std::uint32_t e) { return so_far + scores[e]; })
                         : 1.0;
  std::vector<float> weights;
  for (const std::uint32_t e : chosen)
    weights.push_back(static_cast<float>(scores[e] / sum * scale));
  return weights;
}

} // namespace troupe::gpu_check
