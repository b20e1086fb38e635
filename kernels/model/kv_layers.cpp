#include "kernels/model/kv_layers.hpp"

namespace troupe::model {

kernels::kv_layer_group kv_layer(const layer_program& layer, kernels::dtype type) {
  kernels::kv_layer_group result{.layers = 1, .kv_heads = 1, .type = type};
  if (const auto* latent = layer.find<attend_latent_op>()) {
    result.head_dim = latent->key_width();
    result.value_dim = latent->latent_dim;
  } else {
    const auto& attend = *layer.find<attend_op>();
    result.kv_heads = attend.num_kv_heads;
    result.head_dim = attend.head_dim;
  }
  return result;
}

kernels::kv_cache_config kv_layers(const model_config& config, kernels::dtype type,
                                   std::size_t block_tokens) {
  kernels::kv_cache_config result;
  result.block_tokens = block_tokens;
  auto& groups = result.groups;
  for (const auto& layer : config.layers) {
    auto shape = kv_layer(layer, type);
    if (!groups.empty())
      shape.layers = groups.back().layers;
    if (!groups.empty() && groups.back() == shape) {
      ++groups.back().layers;
    } else {
      shape.layers = 1;
      groups.push_back(shape);
    }
  }
  return result;
}

} // namespace troupe::model
