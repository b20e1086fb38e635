// The distribution of a row of unchanged logits.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/portable_math.hpp"
#include "kernels/sampling.hpp"

namespace troupe::kernels {

/// logprob(token) = logit − best − log Σ.
struct raw_distribution {
  /// The largest logit.
  float best;
  /// ln Σ e^(logit − best).
  double log_sum;

  /// @param exp_sum  Σ e^(logit − best), as `kernel_table::exp_sum` adds
  static raw_distribution of(float best, double exp_sum) { return {best, portable_log(exp_sum)}; }

  bool sick() const { return !std::isfinite(log_sum) || !std::isfinite(best); }

  float logprob(float logit) const {
    return static_cast<float>(static_cast<double>(logit) - static_cast<double>(best) - log_sum);
  }
};

/// The sample for a row whose logits are no numbers.
inline sampled_token sick_token(std::uint32_t token) {
  return {.token = token, .logprob = std::numeric_limits<float>::quiet_NaN(), .rank = 1, .num_top = 0};
}

} // namespace troupe::kernels
