// The compute threads of a process, with an instruction set that has proved itself.
#pragma once

#include <memory>

#include <caf/fwd.hpp>

#include "actors/engine/compute_queue.hpp"
#include "kernels/self_test.hpp"
#include "services/options/role_options.hpp"
#include "services/process/process_log.hpp"

namespace troupe {

/// The instruction set that --cpu-isa asks for, or the best that passes its self-test.
/// @throws option_error when the forced set is not supported here or fails its self-test
kernels::isa_selection choose_isa(const model_options& options);

/// Starts the threads, with the instruction set that `choose_isa` finds; logs which, and what was refused.
/// @throws option_error as `choose_isa`
std::shared_ptr<compute_queue> make_compute_queue(const model_options& options, const process_log& log);

/// Has actors run on as many threads as can compute at once (`available_processors`), and on four at least:
/// CAF itself would take every processor of the machine, whatever part of it this process may use.
void set_actor_threads(caf::actor_system_config& config);

} // namespace troupe
