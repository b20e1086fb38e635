// Which tokens top-k, top-p and min-p leave, and the one among them that a draw means.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace troupe::kernels {

/// Below this a temperature is greedy: dividing by it says no more than the order (vLLM's limit).
inline constexpr float greedy_temperature = 1e-5F;

/// Whether the temperature is so low that the best token is taken.
constexpr bool is_greedy(float temperature) {
  return temperature < greedy_temperature;
}

/// Whether top-k leaves some tokens of a row only.
constexpr bool has_top_k(std::uint32_t top_k, std::size_t vocab) {
  return top_k != 0 && top_k < vocab;
}

/// The least share that min-p leaves: anything above 0 at least, as threads that compute take denormal
/// numbers for 0.
constexpr float least_share(float min_p) {
  return std::max(min_p, std::numeric_limits<float>::min());
}

/// A row as the filters see it.
struct token_shares {
  /// [vocab], after bias and penalties; no NaN.
  const float* logits;
  /// [vocab]: e^((logit − best) / temperature), 0 where that is below FP32's normal range.
  const float* shares;
  std::size_t vocab;
  /// The largest logit, finite.
  float best;
  float temperature;
};

struct token_filters {
  std::uint32_t top_k = 0; ///< 0: off
  float top_p = 1.0F;      ///< 1: off
  float min_p = 0.0F;      ///< 0: off
};

/// The first kept token in order of id whose cumulated share exceeds `uniform` of the kept ones' sum; sums
/// are in double, in order of id. Kept are shares above 0 and of at least `min_p`; of these the `top_k` best,
/// higher logit first, then lower id; of these the beginning, in that order, whose sum reaches `top_p` of
/// theirs. Costs a few passes over the row; only what may be kept is sorted.
/// @param uniform  in [0, 1)
/// @param scratch  [2 · vocab], anything
std::uint32_t choose_token(const token_shares& row, const token_filters& filters, double uniform,
                           std::span<std::uint64_t> scratch);

/// The same with top-p alone, from the best tokens of a row, in order of id, of which the rest is not known.
/// @param least_wanted, most_wanted  between which `top_p` of the whole row's sum lies
/// @returns nothing where the best do not reach it, or it depends on where between these it lies
std::optional<std::uint32_t> choose_among_best(const token_shares& row, float min_p, double least_wanted,
                                               double most_wanted, double uniform,
                                               std::span<std::uint64_t> scratch);

} // namespace troupe::kernels
