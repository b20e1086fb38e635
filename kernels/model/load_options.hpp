// How the attention side of a model is loaded, whatever computes it.
#pragma once

#include "kernels/model/config.hpp"
#include "kernels/tensor.hpp"

#include <cstddef>
#include <functional>
#include <optional>

namespace troupe::model {

/// Called now and then while weights load, from the loading thread.
using load_progress = std::function<void(std::size_t loaded_bytes, std::size_t total_bytes)>;

struct load_options {
  /// Positions that RoPE's tables cover; 0: the model's whole context.
  std::size_t max_positions = 0;
  /// What the KV cache is to hold; nothing: the model's dtype.
  std::optional<kernels::dtype> kv_type{};
};

/// Positions that RoPE's tables are to cover.
/// @errors  model_error where they would take more than 1 GiB
std::size_t positions_of(const model_config& config, const load_options& options);

} // namespace troupe::model
