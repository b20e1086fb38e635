#include "actors/attention/micro_batch_policy.hpp"

#include <algorithm>

namespace troupe {

void micro_batch_policy::observe(const measurement& seen) {
  const auto m = std::max(1.0, static_cast<double>(seen.in_flight));
  const auto b = config_.balance_rows;
  const auto rows = seen.rows_per_expert * m;
  const auto attention = seen.attention_ns * m;
  const auto expert = seen.expert_ns * m * (b + rows) / (m * b + rows);
  const auto network = std::max(0.0, seen.waiting_ns - seen.expert_ns);
  // An eighth: follows a change of load within about ten iterations.
  const auto follow = [&](double& mean, double value) {
    mean = measured_ ? mean + (value - mean) / 8 : value;
  };
  follow(attention_ns_, attention);
  follow(expert_ns_, expert);
  follow(network_ns_, network);
  follow(rows_, rows);
  measured_ = true;
  auto best = config_.min_micro_batches;
  for (auto candidate = best + 1; candidate <= config_.max_micro_batches; ++candidate)
    if (expected_ns(candidate) < expected_ns(best) * (1 - config_.worthwhile))
      best = candidate;
  wanted_ = best;
}

double micro_batch_policy::expected_ns(std::uint32_t m) const {
  const auto n = static_cast<double>(m);
  const auto b = config_.balance_rows;
  const auto expert = b + rows_ > 0 ? expert_ns_ * (n * b + rows_) / (b + rows_) : expert_ns_;
  const auto one = attention_ns_ / n + network_ns_ + expert / n; // one micro-batch's own way
  return std::max({attention_ns_, expert, one});
}

} // namespace troupe
