// Whether a generation request, which may come from anywhere, can be run.
#pragma once

#include <string>

#include "actors/attention/generation_messages.hpp"
#include "actors/engine/engine.hpp"

namespace troupe {

/// Checks everything that computing relies on: tokens inside the vocabulary, finite parameters.
/// @returns what is wrong, in one sentence; empty when the request is sound
std::string flaw_of(const generation_request& request, const model_shape& shape);

} // namespace troupe
