// Tokens that end a sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/model/generation_config.hpp"
#include "services/gateway/text/tokenizer.hpp"

namespace troupe {

/// The end tokens of generation_config.json, of config.json and the tokenizer's `eos_token` together, because
/// a chat model may name the end of its turn in any of them.
/// @returns sorted ids without duplicates
std::vector<std::int32_t> end_tokens_of(const model::generation_config& generation,
                                        const model::model_config& config, const text::tokenizer& tokenizer);

} // namespace troupe
