// How large an answer can become, and that it does not.
#pragma once

#include <cstddef>

#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/choice.hpp"
#include "services/gateway/openai/plan.hpp"

namespace troupe::openai {

/// Bytes of JSON that a new token takes in an answer, by a token of some letters.
size_t bytes_per_token(const generation_options& options, bool chat);

/// Keeps an answer that does not stream within `max_bytes`, before anything is computed. Where the request
/// leaves the number of new tokens open there are no more of them than fit.
/// @throws api_error 400 when the answer could have more
void limit_answer(generation_plan& plan, size_t max_bytes);

/// Memory that this takes while an answer is gathered.
size_t bytes_of(const choice_delta& gained);
size_t bytes_of(const std::vector<generated_token>& tokens);

/// What a request is told whose answer has become too large all the same: its tokens were long ones.
api_error answer_too_large(size_t max_bytes);

} // namespace troupe::openai
