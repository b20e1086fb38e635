#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/families/layer_builder.hpp"
#include "kernels/model/families/rope_fields.hpp"

namespace troupe::model {

void build_mixtral(const json_object& json, std::size_t num_layers, model_config& config) {
  const norm_parts norm{read_epsilon(json, 1e-5)};
  auto heads = read_heads(json, config.hidden);
  read_rope(json, {.theta = 1e6}, heads.head_dim, config);
  heads.window = read_window(json);
  check_layer_types(json, heads.window);
  auto experts = read_experts(json, "intermediate_size");
  json.ignore("router_jitter_noise"); // training only
  for (std::size_t i = 0; i < num_layers; ++i) {
    layer_builder layer(config, i);
    layer.attention_norm(norm);
    layer.attention(heads, {});
    layer.mlp_norm(norm);
    layer.name_experts(experts, "block_sparse_moe", "w1", "w3", "w2");
    layer.route("block_sparse_moe", {.renormalise = true, .experts = experts});
    layer.combine();
    config.layers.push_back(layer.finish());
  }
  set_final_norm(config, norm);
}

} // namespace troupe::model
