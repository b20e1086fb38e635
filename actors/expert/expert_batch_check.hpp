// Whether an expert batch, which may come from anywhere, can be computed.
#pragma once

#include <string>

#include "actors/engine/engine.hpp"
#include "actors/expert/expert_messages.hpp"

namespace troupe {

/// Checks everything that computing relies on: layer, table and payload.
/// @returns what is wrong, in one sentence; empty when the batch is sound
std::string flaw_of(const expert_batch& batch, const model_shape& shape);

} // namespace troupe
