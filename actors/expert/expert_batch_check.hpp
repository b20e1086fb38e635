// Validation of expert batches, which may come from any process.
#pragma once

#include <string>

#include "actors/engine/engine.hpp"
#include "actors/protocol/expert_messages.hpp"

namespace troupe {

/// Checks everything that the computation relies on: layer, table and payload.
/// @returns what is wrong, in one sentence; empty if the batch is valid
std::string flaw_of(const expert_batch& batch, const model_shape& shape);

} // namespace troupe
