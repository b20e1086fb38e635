// Sampling: from logits to a token, with penalties, filters, a counter-based draw and logprobs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/tensor.hpp"

namespace troupe::kernels {

class context;

/// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3"): four words from counter and
/// key.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

/// Identifies a draw of a sequence: equal keys give the same randomness, wherever and whenever.
struct draw_key {
  std::uint64_t seed = 0;
  /// Index among a request's `n` choices.
  std::uint32_t choice = 0;
  /// Position of the drawn token in the sequence.
  std::uint32_t position = 0;
  /// 0 for the token itself; further draws at the same position count up.
  std::uint32_t draw = 0;
};

/// Uniform in [0, 1), 53 bits.
double uniform_at(const draw_key& key);

struct token_bias {
  std::uint32_t token = 0;
  float bias = 0.0F;
};

/// How often a token occurs in the prompt or the output of a sequence.
struct token_count {
  std::uint32_t token = 0;
  /// In the output only: for presence and frequency penalties.
  std::uint32_t in_output = 0;
};

/// A token and its log probability, natural logarithm.
struct token_logprob {
  std::uint32_t token = 0;
  float logprob = 0.0F;
};

/// Logits are divided or multiplied by the repetition penalty, and must stay finite.
inline constexpr double least_repetition_penalty = 0.01;
inline constexpr double largest_repetition_penalty = 100.0;

struct sampling_params {
  /// 0, or anything below 1e-5: greedy.
  float temperature = 1.0F;
  /// 0: off.
  std::uint32_t top_k = 0;
  /// 1: off.
  float top_p = 1.0F;
  /// 0: off. Keeps tokens with at least this share of the best one's probability.
  float min_p = 0.0F;
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
};

/// One row to sample. All spans are borrowed for the call.
struct sampling_row {
  /// Row in the logits tensor.
  std::size_t logits_row = 0;
  sampling_params params{};
  draw_key key{};
  std::span<const token_bias> logit_bias{};
  /// Every token of prompt and output once, in any order: all get the repetition penalty.
  std::span<const token_count> counts{};
  /// Not to be chosen now: stop ids before `min_tokens`, bad words.
  std::span<const std::uint32_t> forbidden{};
  /// The only tokens to choose from, in any order; empty: all. If all of them are forbidden, they are allowed
  /// all the same.
  std::span<const std::uint32_t> allowed{};
  /// Entries in `sampled_token::top`, best first; 0: none.
  std::uint32_t num_logprobs = 0;
  /// Room for them, at least `num_logprobs` (at most vocab are written).
  std::span<token_logprob> top{};
};

struct sampled_token {
  std::uint32_t token = 0;
  /// Of the raw model: log-softmax of the logits before bias, penalties and temperature (vLLM's default
  /// `raw_logprobs`). May be −infinity.
  float logprob = 0.0F;
  /// The token's rank in the raw distribution, 1 is best: how many tokens have at least its logit.
  std::uint32_t rank = 0;
  /// Entries written to `sampling_row::top`.
  std::uint32_t num_top = 0;
};

/// Chooses a token per row, in these steps: tokens that are not allowed to −infinity; logit_bias; forbidden
/// tokens to −infinity; repetition penalty (positive logits divided, others multiplied), frequency, presence.
/// Temperature 0: the best, lowest id first. Otherwise: divide by temperature, min_p, top_k, top_p (the token
/// that crosses p is kept; equal ones: lower ids first), then the first kept token in order of id whose
/// cumulated probability exceeds the draw.
///
/// A row of NaN, or of only −infinity, gives token 0 with a NaN logprob, so that a damaged model is noticed.
///
/// @param logits  [n, vocab], f32; not changed
/// @param rows    which rows to sample, and how
/// @param out     [rows.size()]
/// @threads all; rows are independent
void sample(context& ctx, const_tensor_view logits, std::span<const sampling_row> rows,
            std::span<sampled_token> out);

/// A prompt token whose logprob is wanted.
struct logprob_row {
  std::size_t logits_row = 0;
  /// The next token of the prompt.
  std::uint32_t token = 0;
  std::uint32_t num_logprobs = 0;
  std::span<token_logprob> top{};
};

/// Logprob, rank and alternatives of given tokens (echo, `prompt_logprobs`), as `sample` reports them.
void token_logprobs(context& ctx, const_tensor_view logits, std::span<const logprob_row> rows,
                    std::span<sampled_token> out);

} // namespace troupe::kernels
