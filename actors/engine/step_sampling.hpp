// The end of an attention step: the wanted tokens, from the logits of the rows before them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "actors/engine/engine.hpp"
#include "kernels/model/attention_backend.hpp"

namespace troupe {

/// Rows of logits computed at a time: bounds the memory of prompt logprobs (64 rows × 150,000 entries × 4
/// bytes is 38 MB).
inline constexpr std::size_t logits_chunk_rows = 64;

/// Draws and reports up to logits_chunk_rows of a step's wanted tokens, and appends them to `tokens`.
/// @param sample  called once; does what `attention_backend::sample` does
void answer_wanted(const std::function<void(const model::token_requests&)>& sample,
                   const attention_step& step, std::span<const wanted_token> wanted,
                   std::vector<step_token>& tokens);

} // namespace troupe
