// Opens a model's weights in a folder or cache, as tensors or in the layout of the CPU's kernels.
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
  /// For a folder of packed weights: if `quant` is none, any quantization is accepted.
  bool experts_as_packed = true;
  bool dense_as_packed = true;
  /// Its kernels help to quantize (`select_isa`); the bytes are the same for every set.
  kernels::isa set = kernels::isa::portable;
  /// For a checkpoint; a folder of packed weights is unchanged.
  weight_coding coding = weight_coding::none;
  /// Replaces `coding` if present; called once a checkpoint has been opened.
  std::function<weight_coding(const tensor_source&)> choose_coding{};
  /// For packed weights.
  weight_memory memory = weight_memory::mapped;
  /// Receives the unused tensors of a checkpoint, if there are any.
  std::function<void(std::span<const std::string>)> unused_tensors{};
  /// Where a checkpoint's fingerprint is saved if its own folder is not writable; empty: nowhere.
  std::filesystem::path fingerprints{};
  /// Where a checkpoint is packed once and mapped from then on; without a folder it is converted at every
  /// start.
  cache_options cache{};
};

/// Opens the checkpoint for a backend that packs its tensors itself. Uses only dtype, quantization,
/// `unused_tensors` and `fingerprints`.
///
/// @throws model_error, also for a folder of packed weights
std::shared_ptr<const tensor_source> open_tensors(const std::filesystem::path& folder,
                                                  const model_config& config, const open_options& options);

/// Opens the packed file of a folder that `troupe quantize` wrote, the packed file in the cache (which is
/// written first if missing, once even for several processes), or the checkpoint.
///
/// @throws model_error, also if a packed folder does not hold what `dtype` and `quant` ask for
std::shared_ptr<const cpu_weights> open_weights(const std::filesystem::path& folder,
                                                const model_config& config, const open_options& options);

} // namespace troupe::model
