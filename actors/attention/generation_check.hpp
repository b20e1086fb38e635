// Validation of generation requests, which may come from any process.
#pragma once

#include <string>

#include "actors/engine/engine.hpp"
#include "actors/protocol/generation_messages.hpp"

namespace troupe {

/// Checks everything that the computation relies on: tokens inside the vocabulary, finite parameters.
/// @returns what is wrong, in one sentence; empty if the request is valid
std::string flaw_of(const generation_request& request, const model_shape& shape);

} // namespace troupe
