// What a request changes about logits before a token is chosen: allowed and forbidden tokens, bias,
// penalties.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sampling.hpp"

namespace troupe::kernels {

/// Whether there is anything to change.
bool changes_logits(const sampling_row& row);

/// The tokens whose logits may change, each once, in order of id: of a row with `allowed` these, all others
/// becoming −infinity.
std::vector<std::uint32_t> changed_tokens(const sampling_row& row, std::size_t vocab);

/// @param raw     [vocab], as they came
/// @param logits  [vocab], gets them changed
void change_logits(const sampling_row& row, const float* raw, float* logits, std::size_t vocab);

/// The same for some tokens alone.
/// @param tokens  the row's `changed_tokens`
/// @param logits  [tokens.size()], as they came; gets them changed
void change_logits(const sampling_row& row, std::span<const std::uint32_t> tokens, float* logits,
                   std::size_t vocab);

} // namespace troupe::kernels
