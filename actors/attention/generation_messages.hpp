// What a session asks of an attention worker, and what it gets back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/declare_inspect.hpp"
#include "actors/error.hpp"
#include "actors/first_type_ids.hpp"
#include "actors/ids.hpp"
#include "actors/request_context.hpp"

namespace troupe {

/// Added to the logit of one token.
struct biased_token {
  int32_t token = 0;
  float bias = 0.0F;
  bool operator==(const biased_token&) const = default;
};

/// Bounds of `allowed_token_ids` and `bad_words`, which cost time and memory in every step.
inline constexpr size_t max_allowed_tokens = 16384;
inline constexpr size_t max_bad_word_sequences = 1024;
inline constexpr size_t max_bad_word_tokens = 64; ///< of one sequence

/// How one sequence is sampled; OpenAI's and vLLM's names. Already validated by the gateway.
struct sampling_params {
  float temperature = 1.0F; ///< 0: greedy
  int32_t top_k = 0;        ///< 0: all
  float top_p = 1.0F;
  float min_p = 0.0F;
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  uint64_t seed = 0;                   ///< the gateway draws one when the client sends none
  int32_t max_tokens = 16;             ///< new tokens; at least 1
  int32_t min_tokens = 0;              ///< no stop token before so many new tokens
  int32_t num_logprobs = -1;           ///< alternatives to report per new token; -1: no logprobs at all
  int32_t prompt_logprobs = -1;        ///< the same for every prompt token but the first
  std::vector<int32_t> stop_token_ids; ///< end the sequence: the client's, and the model's unless ignored
  std::vector<biased_token> logit_bias;
  std::vector<int32_t> allowed_token_ids; ///< no others are chosen; empty: all are
  /// Token sequences that are not generated: the last token of one is masked when the new tokens so far end
  /// with those before it.
  std::vector<std::vector<int32_t>> bad_words;
  bool operator==(const sampling_params&) const = default;
};

/// One sequence to generate; sent again, with `emitted` and the next `attempt`, when its worker dies.
struct generation_request {
  sequence_id id;
  uint32_t attempt = 0;         ///< counts replays; the session drops tokens of older attempts
  int32_t priority = 0;         ///< lower runs first, as in vLLM
  std::vector<int32_t> prompt;  ///< never empty
  std::vector<int32_t> emitted; ///< tokens that the session already has; generation goes on behind them
  sampling_params sampling;
  request_context context{}; ///< for logs
  bool operator==(const generation_request&) const = default;
};

/// A token among the alternatives at one position.
struct token_logprob {
  int32_t token = 0;
  float logprob = 0.0F; ///< natural logarithm, of the model's distribution before temperature and penalties
  int32_t rank = 0;     ///< 1: most likely
  bool operator==(const token_logprob&) const = default;
};

/// One token with what the client asked to know about it.
struct generated_token {
  int32_t token = 0;
  float logprob = 0.0F;           ///< 0 when no logprobs were asked for
  int32_t rank = 0;               ///< 0 when no logprobs were asked for
  std::vector<token_logprob> top; ///< most likely first
  bool operator==(const generated_token&) const = default;
};

enum class finish_reason : uint8_t { none = 0, stop = 1, length = 2, cancelled = 3 };

/// New tokens of one sequence, from its attention worker straight to its session.
struct token_update {
  sequence_id id;
  uint32_t attempt = 0;
  uint32_t first_index =
      0; ///< index of tokens[0] among all new tokens of the sequence, replayed ones included
  std::vector<generated_token> tokens;
  std::vector<generated_token> prompt_logprobs; ///< for prompt positions 1.., once, when asked for
  finish_reason finish = finish_reason::none; ///< stop: the last of `tokens` is the stop token that ended it
  bool operator==(const token_update&) const = default;
};

/// A sequence that its attention worker cannot run (any more); worker to session.
struct sequence_failed {
  sequence_id id;
  uint32_t attempt = 0;
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
