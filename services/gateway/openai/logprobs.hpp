// Logprobs in the three forms that the API knows.
#pragma once

#include <span>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "services/gateway/openai/choice.hpp"

namespace troupe::openai {

/// How tokens are named and how many alternatives are shown.
struct logprob_style {
  const text_codec& codec;
  int32_t num_top = 0;        ///< alternatives asked for
  bool tokens_as_ids = false; ///< "token_id:N" instead of text
};

/// The legacy form of completions: parallel arrays `text_offset`, `token_logprobs`, `tokens`, `top_logprobs`.
/// The sampled token is among the top ones of its position, as the (k+1)-th where it is not one of them.
/// A token of rank 0 has no logprob: null (the first one of an echoed prompt).
nlohmann::ordered_json legacy_logprobs(std::span<const placed_token> tokens, const logprob_style& style);

/// The form of chats: `content` holds one object per token with its bytes.
nlohmann::ordered_json chat_logprobs(std::span<const placed_token> tokens, const logprob_style& style);

/// vLLM's `prompt_logprobs`: null for the first position, then token id → {logprob, rank, decoded_token}.
/// @param tokens  of prompt positions 1..
nlohmann::ordered_json prompt_logprobs(std::span<const generated_token> tokens, const text_codec& codec);

/// The tokens of an echoed prompt, placed in its text; the first has no logprob (rank 0).
/// @param offsets   [prompt] where each token begins, in characters
/// @param logprobs  of prompt positions 1..
std::vector<placed_token> place_prompt(const std::vector<int32_t>& prompt, const std::vector<size_t>& offsets,
                                       const std::vector<generated_token>& logprobs);

} // namespace troupe::openai
