// The device, threads and CPU instruction set that a process computes with.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <caf/fwd.hpp>

#include "actors/engine/compute_queue.hpp"
#include "kernels/model/compute_backend.hpp"
#include "kernels/model/cuda/cuda_backend.hpp"
#include "kernels/model/device.hpp"
#include "services/log/process_log.hpp"
#include "services/model/gpu_presence.hpp"
#include "services/model/kernel_choice.hpp"
#include "services/model/model_source.hpp"
#include "services/options/role_options.hpp"

namespace troupe {

/// Questions about this machine's GPUs; tests replace them.
struct gpu_questions {
  /// Like model::cuda_problem.
  std::function<std::optional<std::string>(std::uint32_t)> problem = model::cuda_problem;
  /// Whether the machine has a GPU that this build supports, usable or not.
  std::function<bool()> is_there = could_use_gpu;
};

struct chosen_device {
  model::device device;
  /// Why `auto` did not choose a GPU of this machine, as the end of a sentence; empty: no GPU, or chosen.
  std::string gpu_refused;
};

/// The device of --device; auto: the first GPU if usable, unless the folder's weights are packed for the CPU.
/// @throws option_error for an unusable CUDA device, with reason and remedy
chosen_device choose_device(const model_options& options, const gpu_questions& gpus = {});

/// The backend for the device that the model was opened for.
/// @param ctx  of a compute queue, for the CPU; outlives what the backend makes
/// @param gpu  options for a GPU
std::unique_ptr<model::compute_backend> make_backend(const model_source& source, kernels::context& ctx,
                                                     const model::cuda_options& gpu = {});

/// Starts the compute threads. On a GPU, where there is no plan, --kernel-plan is resolved without measuring.
/// Logs the instruction set, and sets that failed their self-test.
/// @throws option_error as `choose_isa` and `choose_plan`
std::shared_ptr<compute_queue> make_compute_queue(const model_options& options,
                                                  const std::optional<kernels::kernel_plan>& plan,
                                                  const process_log& log);

/// Sets the number of actor threads to `available_processors`, at least four. CAF's default is every
/// processor of the machine, even those that this process may not use.
void set_actor_threads(caf::actor_system_config& config);

} // namespace troupe
