// Where a process computes: on which device, and with which threads and instruction set of the CPU.
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
#include "services/options/role_options.hpp"
#include "services/process/gpu_presence.hpp"
#include "services/process/kernel_choice.hpp"
#include "services/process/model_source.hpp"
#include "services/process/process_log.hpp"

namespace troupe {

/// What is asked about this machine's GPUs.
struct gpu_questions {
  /// As model::cuda_problem.
  std::function<std::optional<std::string>(uint32_t)> problem = model::cuda_problem;
  /// Whether there is one that this build is for, if it can be used or not.
  std::function<bool()> is_there = could_use_gpu;
};

struct chosen_device {
  model::device device;
  /// Why a GPU that is there was not chosen by itself, as a sentence's end; empty: there is none, or it was.
  std::string gpu_refused;
};

/// The device that --device asks for; auto: the first GPU where it can be used, unless the folder's weights
/// are packed for the CPU.
/// @throws option_error for a CUDA device that cannot be used, which says why and what to do
chosen_device choose_device(const model_options& options, const gpu_questions& gpus = {});

/// The model on the device that it was opened for.
/// @param ctx  computes where that is the CPU: a compute queue's; outlives what the backend makes
/// @param gpu  where that is a GPU
std::unique_ptr<model::compute_backend> make_backend(const model_source& source, kernels::context& ctx,
                                                     const model::cuda_options& gpu = {});

/// Starts the threads, with the kernels of a plan or, where a GPU has the model, those that --kernel-plan
/// asks for without measuring; logs the instruction set, and what was refused.
/// @throws option_error as `choose_isa` and `choose_plan`
std::shared_ptr<compute_queue> make_compute_queue(const model_options& options,
                                                  const std::optional<kernels::kernel_plan>& plan,
                                                  const process_log& log);

/// Has actors run on as many threads as can compute at once (`available_processors`), and on four at least:
/// CAF itself would take every processor of the machine, whatever part of it this process may use.
void set_actor_threads(caf::actor_system_config& config);

} // namespace troupe
