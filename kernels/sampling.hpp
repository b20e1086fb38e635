// From logits to a token: penalties, filters, a counter-based draw, logprobs.
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

/// Which draw of which sequence: the same numbers give the same randomness wherever and whenever it is drawn.
struct draw_key {
  std::uint64_t seed = 0;
  /// Index among a request's `n` choices.
  std::uint32_t choice = 0;
  /// Position in the sequence of the token that is drawn.
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
  /// In the output only: what presence and frequency penalties look at.
  std::uint32_t in_output = 0;
};

/// A token and its log probability, natural logarithm.
struct token_logprob {
  std::uint32_t token = 0;
  float logprob = 0.0F;
};

/// Logits are divided by the repetition penalty or multiplied with it, and have to stay finite.
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
  /// Row of the logits tensor.
  std::size_t logits_row = 0;
  sampling_params params{};
  draw_key key{};
  std::span<const token_bias> logit_bias{};
  /// Every token of prompt and output once, any order: all get the repetition penalty.
  std::span<const token_count> counts{};
  /// Never chosen now: stop ids while fewer than `min_tokens` have come, bad words.
  std::span<const std::uint32_t> forbidden{};
  /// No others are chosen, any order; empty: all may be. Where all of them are forbidden they are allowed all
  /// the same.
  std::span<const std::uint32_t> allowed{};
  /// Wanted in `sampled_token::top`, best first; 0: none.
  std::uint32_t num_logprobs = 0;
  /// Room for them, at least `num_logprobs` (no more than vocab are written).
  std::span<token_logprob> top{};
};

struct sampled_token {
  std::uint32_t token = 0;
  /// Of the raw model: log-softmax of the logits as they came, before bias, penalties and temperature (vLLM's
  /// default `raw_logprobs`). −infinity is possible.
  float logprob = 0.0F;
  /// Place of the token in the raw distribution, 1 is best: how many tokens have at least its logit.
  std::uint32_t rank = 0;
  /// Entries written to `sampling_row::top`.
  std::uint32_t num_top = 0;
};

/// Chooses a token per row. In this order: what is not allowed to −infinity; logit_bias; forbidden tokens to
/// −infinity; repetition penalty (positive logits divided, others multiplied), frequency, presence;
/// temperature 0: the best, lowest id first; otherwise divide by temperature, min_p, top_k, top_p (the token
/// that crosses p is kept; equal ones: lower ids first), then the first kept token in order of id whose
/// cumulated probability exceeds the draw.
///
/// A row of NaN or of nothing but −infinity gives token 0 with a NaN logprob, so that a sick model shows.
///
/// @param logits  [n, vocab], f32; not changed
/// @param rows    which to sample, and how
/// @param out     [rows.size()]
/// @threads all; rows are independent
void sample(context& ctx, const_tensor_view logits, std::span<const sampling_row> rows,
            std::span<sampled_token> out);

/// A prompt token whose logprob is wanted.
struct logprob_row {
  std::size_t logits_row = 0;
  /// The token that follows in the prompt.
  std::uint32_t token = 0;
  std::uint32_t num_logprobs = 0;
  std::span<token_logprob> top{};
};

/// Logprob, rank and alternatives of given tokens (echo, `prompt_logprobs`), as `sample` reports them.
void token_logprobs(context& ctx, const_tensor_view logits, std::span<const logprob_row> rows,
                    std::span<sampled_token> out);

} // namespace troupe::kernels
