// The KV cache that a program needs.
#pragma once

#include "kernels/kv_cache.hpp"
#include "kernels/model/config.hpp"
#include "kernels/tensor.hpp"

#include <cstddef>

namespace troupe::model {

/// What a layer keeps of a token: a group of one layer.
kernels::kv_layer_group kv_layer(const layer_program& layer, kernels::dtype type);

/// The layers, grouped by shape.
kernels::kv_cache_config kv_layers(const model_config& config, kernels::dtype type, std::size_t block_tokens);

} // namespace troupe::model
