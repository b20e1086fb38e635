// Bounds the size of an answer.
#pragma once

#include <cstddef>

#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/choice.hpp"
#include "services/gateway/openai/plan.hpp"

namespace troupe::openai {

/// Estimated bytes of JSON for one new token.
std::size_t bytes_per_token(const generation_options& options, bool chat);

/// Keeps a non-streaming answer within `max_bytes`, before anything is computed. If the request leaves the
/// number of new tokens open, reduces it to what fits.
/// @throws api_error 400  the requested answer could be larger
void limit_answer(generation_plan& plan, std::size_t max_bytes);

/// Memory of `gained` while an answer is collected.
std::size_t bytes_of(const choice_delta& gained);
std::size_t bytes_of(const std::vector<generated_token>& tokens);

/// The error for an answer that exceeded the bound although the estimate did not: its tokens were long.
api_error answer_too_large(std::size_t max_bytes);

} // namespace troupe::openai
