// Writes logprobs in the three forms of the API.
#pragma once

#include <span>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "services/gateway/openai/choice.hpp"

namespace troupe::openai {

/// How tokens are written and how many alternatives are shown.
struct logprob_style {
  const text_codec& codec;
  std::int32_t num_top = 0;   ///< requested alternatives
  bool tokens_as_ids = false; ///< "token_id:N" instead of text
};

/// The legacy form of completions: parallel arrays `text_offset`, `token_logprobs`, `tokens`, `top_logprobs`.
/// The top ones of a position include the sampled token, as number k + 1 if it is not among the k likeliest.
/// A token of rank 0 (the first of an echoed prompt) has the logprob null.
nlohmann::ordered_json legacy_logprobs(std::span<const placed_token> tokens, const logprob_style& style);

/// The form of chats: `content` holds an object per token, with its bytes.
nlohmann::ordered_json chat_logprobs(std::span<const placed_token> tokens, const logprob_style& style);

/// vLLM's `prompt_logprobs`: null for the first position, then token id → {logprob, rank, decoded_token}.
/// @param tokens  of prompt positions 1..
nlohmann::ordered_json prompt_logprobs(std::span<const generated_token> tokens, const text_codec& codec);

/// The tokens of an echoed prompt with their places in its text; the first has no logprob (rank 0).
/// @param offsets   [prompt] start of each token, in characters
/// @param logprobs  of prompt positions 1..
std::vector<placed_token> place_prompt(const std::vector<std::int32_t>& prompt,
                                       const std::vector<std::size_t>& offsets,
                                       const std::vector<generated_token>& logprobs);

} // namespace troupe::openai
