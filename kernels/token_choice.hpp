// The filters top-k, top-p and min-p, and the choice of a token by a draw.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace troupe::kernels {

/// A temperature below this is greedy: dividing by it only keeps the order (vLLM's limit).
inline constexpr float greedy_temperature = 1e-5F;

/// Whether the temperature means the best token.
constexpr bool is_greedy(float temperature) {
  return temperature < greedy_temperature;
}

/// Whether top-k excludes any token of a row.
constexpr bool has_top_k(std::uint32_t top_k, std::size_t vocab) {
  return top_k != 0 && top_k < vocab;
}

/// The least share that min-p keeps: above 0, since computing threads treat denormal numbers as 0.
constexpr float least_share(float min_p) {
  return std::max(min_p, std::numeric_limits<float>::min());
}

/// A row as input of the filters.
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
/// theirs. Costs a few passes over the row; only tokens that may be kept are sorted.
/// @param uniform  in [0, 1)
/// @param scratch  [2 · vocab], any content
std::uint32_t choose_token(const token_shares& row, const token_filters& filters, double uniform,
                           std::span<std::uint64_t> scratch);

/// The same with top-p alone, from a row's best tokens in order of id, without knowing the rest.
/// @param least_wanted, most_wanted  bounds of `top_p` of the whole row's sum
/// @returns empty if the best tokens do not reach it, or the choice differs between the bounds
std::optional<std::uint32_t> choose_among_best(const token_shares& row, float min_p, double least_wanted,
                                               double most_wanted, double uniform,
                                               std::span<std::uint64_t> scratch);

} // namespace troupe::kernels
