// Sampling from a part of a row's logits: what another device has told of it.
//
// The choice is the one that `sample` makes of the whole row, to the last bit, or none: whoever has the row
// asks `sample` then. The best tokens are enough for greedy choices, top-k and most of top-p and min-p.
// Without filters every token counts, but for the draw it suffices to know the sums of blocks of tokens, in
// any order of additions, and the one block that the draw falls into: what rounding may have done to the sums
// is bounded, and a draw that lies so near to an edge, one of a million, is not decided here.
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

/// Tokens of which shares are summed together.
inline constexpr std::size_t share_block = 1024;

constexpr std::size_t share_blocks(std::size_t vocab) {
  return (vocab + share_block - 1) / share_block;
}

/// All spans are borrowed.
struct known_logits {
  std::size_t vocab = 0;
  /// The largest logit, and Σ e^(logit − best) as `kernel_table::exp_sum` adds it: the same bits.
  float best = 0.0F;
  double exp_sum = 0.0;
  /// Best first: all tokens whose logit is at least the last one's. Empty: none is known.
  std::span<const token_logit> top{};
  /// The logits of the row's `changed_tokens`, as they came.
  std::span<const float> changed{};
  /// Where the row `draws_from_all`: sums of the shares e^((logit − best) / temperature) that min-p leaves,
  /// of `share_block` tokens each; the block that the draw falls into, and its logits. Otherwise empty.
  std::span<const double> share_sums{};
  std::size_t drawn_block = 0;
  std::span<const float> drawn{};
};

/// What to ask for besides the best tokens: whether `share_sums` are wanted.
bool draws_from_all(const sampling_row& row, std::size_t vocab);

/// A token, of which only the rank may be missing.
struct known_choice {
  sampled_token token{};
  /// Where it is: of how many tokens at least this logit.
  bool has_rank = true;
  float logit = 0.0F;
};

/// Vectors that are used again from row to row.
struct known_scratch {
  std::vector<std::uint32_t> tokens;
  std::vector<float> logits;
  std::vector<float> shares;
  std::vector<std::uint64_t> keys;
  std::vector<token_logit> changed;
};

/// `sample` for one row. `row.logits_row` is not looked at.
/// @param changed  the row's `changed_tokens`, none where it changes nothing
/// @returns nothing: what is known does not tell
std::optional<known_choice> sample_known(const context& ctx, const known_logits& known,
                                         const sampling_row& row, std::span<const std::uint32_t> changed,
                                         known_scratch& scratch);

/// `token_logprobs` for one row whose token has this logit.
std::optional<known_choice> known_logprob(const known_logits& known, const logprob_row& row, float logit);

} // namespace troupe::kernels
