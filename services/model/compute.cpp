#include "services/model/compute.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <caf/actor_system_config.hpp>

#include "kernels/model/cpu_backend.hpp"
#include "kernels/model/packed_format.hpp"
#include "services/options/device_choice.hpp"
#include "services/options/processors.hpp"

namespace troupe {

namespace {

/// The first GPU where it can be used.
chosen_device device_by_itself(const model_options& options, const gpu_questions& gpus) {
  std::error_code unreadable; // opening the folder reports what is wrong with it
  if (std::filesystem::exists(std::filesystem::path(options.model_dir) / model::packed_file_name, unreadable))
    return {};
  auto why = gpus.problem(0);
  if (!why)
    return {{model::device_kind::cuda, 0}, {}};
  return {{}, gpus.is_there() ? std::move(*why) : std::string{}};
}

} // namespace

chosen_device choose_device(const model_options& options, const gpu_questions& gpus) {
  const auto choice = parse_device(options.device);
  switch (choice.kind) {
  case device_choice::kind_type::automatic:
    return device_by_itself(options, gpus);
  case device_choice::kind_type::cpu:
    break;
  case device_choice::kind_type::cuda:
    if (auto why = gpus.problem(choice.number))
      throw option_error("--device: '" + options.device + "': " + *why);
    return {{model::device_kind::cuda, choice.number}, {}};
  }
  return {};
}

std::unique_ptr<model::compute_backend> make_backend(const model_source& source, kernels::context& ctx,
                                                     const model::cuda_options& gpu) {
  switch (source.device.kind) {
  case model::device_kind::cpu:
    break;
  case model::device_kind::cuda:
    return model::make_cuda_backend(ctx, source.tensors, source.device.number, gpu);
  }
  return std::make_unique<model::cpu_backend>(ctx, source.cpu_weights);
}

std::shared_ptr<compute_queue> make_compute_queue(const model_options& options,
                                                  const std::optional<kernels::kernel_plan>& plan,
                                                  const process_log& log) {
  kernels::isa_selection selection = choose_isa(options);
  for (const auto& refusal : selection.refused) {
    log.line("isa-refused", std::string(kernels::name_of(refusal.set))
                                + " gives other bits than the reference in " + refusal.op);
  }
  auto cores = options.cores_list();
  auto queue = std::make_shared<compute_queue>(options.num_threads(),
                                               plan ? *plan : plan_without_model(options), cores);
  std::string text = std::string(kernels::name_of(selection.chosen)) + ", " + std::to_string(queue->threads())
                     + (queue->threads() == 1 ? " thread" : " threads");
  if (!cores.empty())
    text += " on processors " + processors_text(cores);
  else if (options.threads == 0 && queue->threads() < usable_processors().size())
    text += " of " + std::to_string(usable_processors().size()) + " processors: the cgroup's CPU quota";
  log.line("compute", text);
  return queue;
}

void set_actor_threads(caf::actor_system_config& config) {
  config.set("scheduler.max-threads", std::max<std::int64_t>(4, available_processors()));
}

} // namespace troupe
