// The model folder, opened and validated once, before any role loads or serves it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine/engine.hpp"
#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/device.hpp"
#include "kernels/model/generation_config.hpp"
#include "kernels/model/open_weights.hpp"
#include "kernels/model/packed_writer.hpp"
#include "services/log/process_log.hpp"
#include "services/model/kernel_choice.hpp"
#include "services/options/role_options.hpp"
#include "services/startup/load_progress.hpp"

namespace troupe {

/// A model of which every tensor was found, with the expected shape and dtype.
struct model_source {
  model::model_config config;
  model::generation_config generation;
  model::device device; ///< that it was opened for
  /// Why a GPU of this machine was not chosen, as the end of a sentence; empty: no GPU, or chosen.
  std::string gpu_refused;
  /// The weights in the form of that device's backend: one of the next two.
  std::shared_ptr<const model::weight_source> weights;
  std::shared_ptr<const model::cpu_weights> cpu_weights; ///< of the CPU
  std::shared_ptr<const model::tensor_source> tensors;   ///< of other devices
  kernels::dtype type = kernels::dtype::f32;
  kernels::dtype kv_type = kernels::dtype::f32; ///< of the KV cache
  std::string fingerprint;
  std::string numerics_class;
  std::optional<kernels::kernel_plan> plan; ///< of the CPU; none on a GPU
  std::vector<std::string> unused_tensors;  ///< in the checkpoint, and not needed
};

/// One line that names unused contents of the model folder: fields of config.json and generation_config.json,
/// and tensors, at most eight of each by name. Empty if there are none.
std::string ignored_text(const model_source& source);

/// Logs that line, if any. Only one process of a cluster should.
void log_ignored(const model_source& source, const process_log& log);

/// Logs why a GPU of this machine is not used, if so.
void log_gpu_refused(const model_source& source, const process_log& log);

/// Forwards the progress of packing, and aborts it at a stop signal.
model::pack_progress packing_progress(std::shared_ptr<load_progress> load);

/// The quantization of --expert-quant, --int4-group, --dense-quant and --activation-quant.
model::quantization quantization_of(const model_options& options);

/// Those flags and --dtype, for opening weights: without a cache.
model::open_options open_options_of(const model_options& options);

/// The value of --weight-coding; auto: the plan's.
model::weight_coding coding_of(const model_options& options, const kernels::kernel_plan& plan);

/// The demand of a model on the kernels.
/// @param is_packed  the folder's weights are packed already
kernel_demand demand_of(const model_options& options, const model::model_config& config,
                        const model::weight_source& weights, bool is_packed);

/// Opens and validates the folder, and chooses the kernels for it.
/// @param load  gets the progress of packing into a cache; null: it is only logged
/// @throws model::model_error, option_error; interrupted at a stop signal
model_source open_model(const model_options& options, plan_use use = plan_use::computes,
                        std::shared_ptr<load_progress> load = nullptr);

/// Reads config.json and generation_config.json, for a process that computes nothing. The folder needs no
/// weights, and existing ones are ignored; properties of weights, such as the fingerprint, stay empty.
/// @throws model::model_error, option_error
model_source open_model_config(const model_options& options);

/// Opens a folder with config.json and without weights, for a worker that gets weights from its peers, and
/// chooses the kernels.
/// @param fingerprint     of the cluster's model
/// @param numerics_class  of its expert workers; flags for another class are an error
/// @throws model::model_error, option_error
model_source open_model_of_peers(const model_options& options, const std::string& fingerprint,
                                 const std::string& numerics_class);

/// The properties of the model that actors need.
model_shape shape_of(const model_source& source);

} // namespace troupe
