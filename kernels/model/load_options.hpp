// Options for loading the attention side of a model, for every backend.
#pragma once

#include "kernels/model/config.hpp"
#include "kernels/tensor.hpp"

#include <cstddef>
#include <functional>
#include <optional>

namespace troupe::model {

/// Called repeatedly while weights load, on the loading thread.
using load_progress = std::function<void(std::size_t loaded_bytes, std::size_t total_bytes)>;

struct load_options {
  /// Positions that RoPE's tables cover; 0: the model's whole context.
  std::size_t max_positions = 0;
  /// Type of the KV cache; empty: the model's dtype.
  std::optional<kernels::dtype> kv_type{};
  /// Layers that see only a window have block tables of their own, if the backend can (`kv_reaches`).
  bool tables_by_reach = false;
};

/// @throws model_error  the model's KV cache cannot be of `type`
void check_kv_type(const model_config& config, kernels::dtype type);

/// Positions for RoPE's tables.
/// @throws model_error  they would take more than 1 GiB
std::size_t positions_of(const model_config& config, const load_options& options);

} // namespace troupe::model
