// Which tokens end a sequence by themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/model/generation_config.hpp"
#include "services/gateway/text/tokenizer.hpp"

namespace troupe {

/// The end tokens of generation_config.json, of config.json and the tokenizer's `eos_token`, together: a chat
/// model may name the end of its turn in any one of them.
/// @returns ids in order, each once
std::vector<int32_t> end_tokens_of(const model::generation_config& generation,
                                   const model::model_config& config, const text::tokenizer& tokenizer);

} // namespace troupe
