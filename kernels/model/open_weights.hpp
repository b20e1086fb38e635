// From a model folder, or a cache, to its weights: as tensors, or in the layout that the CPU's kernels
// stream.
#pragma once

#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/numerics.hpp"
#include "kernels/model/packed_source.hpp"
#include "kernels/model/weights_cache.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace troupe::model {

struct open_options {
  dtype_choice dtype = dtype_choice::automatic;
  quantization quant{};
  /// Of a folder of packed weights: where `quant` says none, whatever is there will do.
  bool experts_as_packed = true;
  bool dense_as_packed = true;
  /// Whose kernels help to quantize (`select_isa`): with every set's the bytes are the same.
  kernels::isa set = kernels::isa::portable;
  /// Of a checkpoint; a folder of packed weights stays as it is.
  weight_coding coding = weight_coding::none;
  /// Asked in place of it, where it is there, once a checkpoint has been opened.
  std::function<weight_coding(const tensor_source&)> choose_coding{};
  /// Of packed weights.
  weight_memory memory = weight_memory::mapped;
  /// Told the tensors of a checkpoint that the model does not need, where there are any.
  std::function<void(std::span<const std::string>)> unused_tensors{};
  /// Where a checkpoint is packed once and mapped from then on; no folder: it is converted at every start.
  cache_options cache{};
};

/// Opens the checkpoint for a backend that packs its tensors itself. Only dtype, quantization and
/// `unused_tensors` are looked at.
///
/// @errors  model_error; a folder of packed weights is one
std::shared_ptr<const tensor_source> open_tensors(const std::filesystem::path& folder,
                                                  const model_config& config, const open_options& options);

/// Opens the packed file of a folder that `troupe quantize` wrote, the packed file in the cache (which is
/// written first where it is missing, once, also when several processes ask), or the checkpoint.
///
/// @errors  model_error; a packed folder that does not hold what `dtype` and `quant` ask for is one
std::shared_ptr<const cpu_weights> open_weights(const std::filesystem::path& folder,
                                                const model_config& config, const open_options& options);

} // namespace troupe::model
