// Reads the request fields that completions and chats share.
#pragma once

#include "services/gateway/openai/fields.hpp"
#include "services/gateway/openai/request.hpp"

namespace troupe::openai {

/// Most alternatives per position; vLLM's default bound.
inline constexpr std::int64_t max_logprobs = 20;

/// Reads every field of both endpoints, except `logprobs` and `max_tokens`, which differ and stay with the
/// caller.
/// @throws api_error as the parse functions of request.hpp
generation_options parse_generation_options(const fields& body, const request_limits& limits);

/// Reads a number of new tokens; absent and -1: not given.
std::optional<std::int32_t> parse_token_count(const fields& body, const char* name, std::int32_t least);

/// Whether the field is -1: as many new tokens as fit.
bool is_unlimited(const fields& body, const char* name);

/// Reads an array of token ids, each within the vocabulary.
/// @param name  of the array; with an index if it is an element of the field: "prompt[2]"
/// @throws api_error 400 that names field, index and range
std::vector<std::int32_t> parse_token_ids(const json& array, const std::string& name,
                                          std::int32_t vocab_size);

} // namespace troupe::openai
