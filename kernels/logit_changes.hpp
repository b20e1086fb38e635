// A request's changes to logits before a token is chosen: allowed and forbidden tokens, bias, penalties.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sampling.hpp"

namespace troupe::kernels {

/// Whether the row changes any logit.
bool changes_logits(const sampling_row& row);

/// Tokens whose logits may change, each once, in order of id. For a row with `allowed` these are the allowed
/// ones; all others become −infinity.
std::vector<std::uint32_t> changed_tokens(const sampling_row& row, std::size_t vocab);

/// @param raw     [vocab], unchanged logits
/// @param logits  [vocab], receives the changed ones
void change_logits(const sampling_row& row, const float* raw, float* logits, std::size_t vocab);

/// The same for some tokens alone.
/// @param tokens  the row's `changed_tokens`
/// @param logits  [tokens.size()], unchanged; replaced by the changed ones
void change_logits(const sampling_row& row, std::span<const std::uint32_t> tokens, float* logits,
                   std::size_t vocab);

} // namespace troupe::kernels
