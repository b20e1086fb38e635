// The fields that completions and chats share.
#pragma once

#include "services/gateway/openai/fields.hpp"
#include "services/gateway/openai/request.hpp"

namespace troupe::openai {

/// Alternatives per position that may be asked for; vLLM's default bound.
inline constexpr int64_t max_logprobs = 20;

/// Reads every field that both endpoints know; `logprobs` and `max_tokens` differ and stay with the caller.
/// @throws api_error as the parse functions of request.hpp
generation_options parse_generation_options(const fields& body, const request_limits& limits);

/// A number of new tokens; absent and -1: not given.
std::optional<int32_t> parse_token_count(const fields& body, const char* name, int32_t least);

/// Token ids of an array, each within the vocabulary.
/// @param name  of the array; with an index where it is an element of the field: "prompt[2]"
/// @throws api_error 400 that names field, index and range
std::vector<int32_t> parse_token_ids(const json& array, const std::string& name, int32_t vocab_size);

} // namespace troupe::openai
