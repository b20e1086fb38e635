// The model folder as the roles share it: opened and validated once, before anything is loaded or served.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine/engine.hpp"
#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/device.hpp"
#include "kernels/model/generation_config.hpp"
#include "kernels/model/packed_writer.hpp"
#include "services/options/role_options.hpp"
#include "services/process/kernel_choice.hpp"
#include "services/process/process_log.hpp"

namespace troupe {

/// A model whose every tensor is known to be there, with its shape and dtype.
struct model_source {
  model::model_config config;
  model::generation_config generation;
  model::device device; ///< that it was opened for
  /// Why a GPU that is there was not chosen, as a sentence's end; empty: there is none, or it was.
  std::string gpu_refused;
  /// As that device's backend takes them: one of the two that follow.
  std::shared_ptr<const model::weight_source> weights;
  std::shared_ptr<const model::cpu_weights> cpu_weights; ///< of the CPU
  std::shared_ptr<const model::tensor_source> tensors;   ///< of all others
  kernels::dtype type = kernels::dtype::f32;
  kernels::dtype kv_type = kernels::dtype::f32; ///< of the KV cache
  std::string fingerprint;
  std::string numerics_class;
  std::optional<kernels::kernel_plan> plan; ///< of the CPU; none on a GPU
  std::vector<std::string> unused_tensors;  ///< in the checkpoint, and not needed
};

/// One line that names what the model folder holds and nothing here looks at: fields of config.json and
/// generation_config.json, and tensors. Of each at most eight by name. Empty where there is nothing.
std::string ignored_text(const model_source& source);

/// Writes that line to the log, where there is one: one process of a cluster should.
void log_ignored(const model_source& source, const process_log& log);

/// Says why a GPU that is there is not used, where that is so.
void log_gpu_refused(const model_source& source, const process_log& log);

/// Tells of a long packing once a second.
model::pack_progress packing_lines();

/// What the flags --expert-quant, --int4-group, --dense-quant and --activation-quant ask for.
model::quantization quantization_of(const model_options& options);

/// What --weight-coding asks for; auto: as the plan has it.
model::weight_coding coding_of(const model_options& options, const kernels::kernel_plan& plan);

/// What is asked of the kernels.
/// @param is_packed  the folder's weights are, as somebody else wanted it
kernel_demand demand_of(const model_options& options, const model::model_config& config,
                        const model::weight_source& weights, bool is_packed);

/// Opens and validates the folder, and chooses the kernels for it.
/// @throws model::model_error, option_error
model_source open_model(const model_options& options, plan_use use = plan_use::computes);

/// Opens a folder that has config.json and no weights, which other workers of the cluster have, and chooses
/// the kernels for them.
/// @param fingerprint     of the cluster's model
/// @param numerics_class  of its expert workers; flags that ask for another one are an error
/// @throws model::model_error, option_error
model_source open_model_of_peers(const model_options& options, const std::string& fingerprint,
                                 const std::string& numerics_class);

/// What actors must know of it.
model_shape shape_of(const model_source& source);

} // namespace troupe
