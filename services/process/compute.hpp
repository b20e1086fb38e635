// The compute threads of a process, with an instruction set that has proved itself.
#pragma once

#include <memory>

#include "actors/compute_queue.hpp"
#include "services/options/role_options.hpp"
#include "services/process/process_log.hpp"

namespace troupe {

/// Chooses the instruction set (--cpu-isa), logs what was chosen and what was refused, and starts the
/// threads.
/// @throws option_error when the forced set is not supported here or fails its self-test
std::shared_ptr<compute_queue> make_compute_queue(const model_options& options, const process_log& log);

} // namespace troupe
