// Messages between a session and an attention worker: requests to generate, and tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/protocol/declare_inspect.hpp"
#include "actors/protocol/error.hpp"
#include "actors/protocol/first_type_ids.hpp"
#include "actors/protocol/ids.hpp"
#include "actors/protocol/request_context.hpp"

namespace troupe {

/// Added to the logit of one token.
struct biased_token {
  std::int32_t token = 0;
  float bias = 0.0F;
  bool operator==(const biased_token&) const = default;
};

/// Bounds of `allowed_token_ids` and `bad_words`, which cost time and memory in every step.
inline constexpr std::size_t max_allowed_tokens = 16384;
inline constexpr std::size_t max_bad_word_sequences = 1024;
inline constexpr std::size_t max_bad_word_tokens = 64; ///< of one sequence

/// How one sequence is sampled, with the names of OpenAI and vLLM. Validated by the gateway.
struct sampling_params {
  float temperature = 1.0F; ///< 0: greedy
  std::int32_t top_k = 0;   ///< 0: all
  float top_p = 1.0F;
  float min_p = 0.0F;
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  std::uint64_t seed = 0;            ///< the gateway draws one when the client sends none
  std::int32_t max_tokens = 16;      ///< new tokens; at least 1
  std::int32_t min_tokens = 0;       ///< no stop token before this many new tokens
  std::int32_t num_logprobs = -1;    ///< alternatives to report per new token; -1: no logprobs at all
  std::int32_t prompt_logprobs = -1; ///< the same for every prompt token but the first
  std::vector<std::int32_t>
      stop_token_ids; ///< end the sequence: the client's, and the model's unless ignored
  std::vector<biased_token> logit_bias;
  std::vector<std::int32_t> allowed_token_ids; ///< the only tokens that may be chosen; empty: all
  /// Token sequences that are not generated: the last token of one is masked when the new tokens so far end
  /// with the others.
  std::vector<std::vector<std::int32_t>> bad_words;
  bool operator==(const sampling_params&) const = default;
};

/// One sequence to generate. It is sent again, with `emitted` and the next `attempt`, when its worker dies.
struct generation_request {
  sequence_id id;
  std::uint32_t attempt = 0;        ///< counts replays; the session drops tokens of older attempts
  std::int32_t priority = 0;        ///< lower runs first, as in vLLM
  std::vector<std::int32_t> prompt; ///< never empty
  /// Tokens that the session already has; generation continues behind them.
  std::vector<std::int32_t> emitted;
  sampling_params sampling;
  request_context context{}; ///< for logs
  std::string cache_salt{};  ///< blocks of its prompt are shared with sequences of this salt only
  bool operator==(const generation_request&) const = default;
};

/// A token among the alternatives at one position.
struct token_logprob {
  std::int32_t token = 0;
  float logprob = 0.0F;  ///< natural logarithm, of the model's distribution before temperature and penalties
  std::int32_t rank = 0; ///< 1: most likely
  bool operator==(const token_logprob&) const = default;
};

/// One token with the log probabilities that the client asked for.
struct generated_token {
  std::int32_t token = 0;
  float logprob = 0.0F;           ///< 0 when no logprobs were asked for
  std::int32_t rank = 0;          ///< 0 when no logprobs were asked for
  std::vector<token_logprob> top; ///< most likely first
  bool operator==(const generated_token&) const = default;
};

enum class finish_reason : std::uint8_t { none = 0, stop = 1, length = 2, cancelled = 3 };

/// New tokens of one sequence, from its attention worker directly to its session.
struct token_update {
  sequence_id id;
  std::uint32_t attempt = 0;
  std::uint32_t first_index =
      0; ///< index of tokens[0] among all new tokens of the sequence, replayed ones included
  std::vector<generated_token> tokens;
  std::vector<generated_token> prompt_logprobs; ///< for prompt positions 1.., once, when asked for
  finish_reason finish = finish_reason::none; ///< stop: the last of `tokens` is the stop token that ended it
  /// Tokens of prompt and emitted ones that were not computed, since their keys were known. In the update
  /// with the first token of an attempt.
  std::uint32_t num_cached = 0;
  bool operator==(const token_update&) const = default;
};

/// Worker to session: the attention worker cannot run this sequence, or not any more.
struct sequence_failed {
  sequence_id id;
  std::uint32_t attempt = 0;
  ec code = ec::none;
  std::string text;
  bool operator==(const sequence_failed&) const = default;
};

TROUPE_DECLARE_INSPECT(biased_token)
TROUPE_DECLARE_INSPECT(sampling_params)
TROUPE_DECLARE_INSPECT(generation_request)
TROUPE_DECLARE_INSPECT(token_logprob)
TROUPE_DECLARE_INSPECT(generated_token)
TROUPE_DECLARE_INSPECT(token_update)
TROUPE_DECLARE_INSPECT(sequence_failed)

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_generation, troupe::first_type_id::of_generation)
  CAF_ADD_TYPE_ID(troupe_generation, (troupe::generation_request))
  CAF_ADD_TYPE_ID(troupe_generation, (troupe::token_update))
  CAF_ADD_TYPE_ID(troupe_generation, (troupe::sequence_failed))
CAF_END_TYPE_ID_BLOCK(troupe_generation)
