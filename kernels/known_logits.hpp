// Sampling from a part of a row's logits, as another device reports it.
//
// The result is bit for bit the choice of `sample` for the whole row, or empty; then the owner of the row
// calls `sample`. The best tokens suffice for greedy choices, top-k and most of top-p and min-p. Without
// filters every token counts, but a draw only needs the sums of blocks of tokens, in any order of additions,
// and the one block that the draw falls into. The sums' rounding is bounded, and a draw closer than that to
// an edge, one of a million, is not decided here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/sampling.hpp"

namespace troupe::kernels {

class context;

struct token_logit {
  std::uint32_t token = 0;
  float logit = 0.0F;
};

/// Higher logit first, then lower id.
inline bool is_better(const token_logit& a, const token_logit& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

/// Tokens whose shares are summed together.
inline constexpr std::size_t share_block = 1024;

constexpr std::size_t share_blocks(std::size_t vocab) {
  return (vocab + share_block - 1) / share_block;
}

/// All spans are borrowed.
struct known_logits {
  std::size_t vocab = 0;
  /// The largest logit, and Σ e^(logit − best) with the bits of `kernel_table::exp_sum`.
  float best = 0.0F;
  double exp_sum = 0.0;
  /// Best first: all tokens whose logit is at least the last one's. Empty: none known.
  std::span<const token_logit> top{};
  /// The unchanged logits of the row's `changed_tokens`.
  std::span<const float> changed{};
  /// If the row `draws_from_all`: sums of the shares e^((logit − best) / temperature) after min-p, over
  /// `share_block` tokens each; the block that the draw falls into, and its logits. Otherwise empty.
  std::span<const double> share_sums{};
  std::size_t drawn_block = 0;
  std::span<const float> drawn{};
};

/// Whether `share_sums` are needed besides the best tokens.
bool draws_from_all(const sampling_row& row, std::size_t vocab);

/// A token; only its rank may be missing.
struct known_choice {
  sampled_token token{};
  /// Whether its rank (how many tokens have at least its logit) is known.
  bool has_rank = true;
  float logit = 0.0F;
};

/// Vectors that are reused from row to row.
struct known_scratch {
  std::vector<std::uint32_t> tokens;
  std::vector<float> logits;
  std::vector<float> shares;
  std::vector<std::uint64_t> keys;
  std::vector<token_logit> changed;
};

/// `sample` for one row. `row.logits_row` is ignored.
/// @param changed  the row's `changed_tokens`; empty if it changes nothing
/// @returns empty: the known part does not decide
std::optional<known_choice> sample_known(const context& ctx, const known_logits& known,
                                         const sampling_row& row, std::span<const std::uint32_t> changed,
                                         known_scratch& scratch);

/// `token_logprobs` for one row whose token has this logit.
std::optional<known_choice> known_logprob(const known_logits& known, const logprob_row& row, float logit);

} // namespace troupe::kernels
