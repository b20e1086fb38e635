// How much memory a worker's experts may take.
#pragma once

#include <cstdint>

#include "kernels/model/expert_backend.hpp"

namespace troupe {

/// @param wanted  as --expert-memory says; 0: it does not
/// @param is_alone  whether nobody else could hold what this worker has no room for
/// @returns what was asked for, or else what the device has room for; 0: as much as needed
/// @throws model::model_error where the device has no room for all experts of the model, and nobody else has
uint64_t expert_room_of(const model::expert_backend& backend, uint64_t wanted, bool is_alone);

} // namespace troupe
