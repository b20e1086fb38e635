// From a slice of a sequence to the rows of a step.
#pragma once

#include <cstdint>

#include "actors/attention/batch_policy.hpp"
#include "actors/engine/engine.hpp"

namespace troupe {

/// Appends a sequence to `step`: a row for each position of the slice, the token behind the last known one if
/// the slice reaches it, and, if wanted, reports on the prompt tokens behind the rows.
/// @param slice  of known tokens; the tables reach as far
void add_slice(attention_step& step, step_sequence sequence, const batch_policy::slice& slice,
               std::uint32_t block_tokens, bool wants_prompt_logprobs);

} // namespace troupe
