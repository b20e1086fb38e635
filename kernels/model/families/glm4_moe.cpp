// GLM-4.5, GLM-4.6, GLM-4.7 and GLM-4.5-Air.
#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/families/noaux.hpp"
#include "kernels/model/families/rope_fields.hpp"

namespace troupe::model {

void build_glm4_moe(const json_object& json, std::size_t num_layers, model_config& config) {
  const auto heads = read_heads(json, config.hidden);
  read_rope(json, {.theta = 1e4, .partial = 0.5, .may_be_partial = true}, heads.head_dim, config);
  const norm_parts norm{read_epsilon(json, 1e-5)};
  const attention_parts parts{.qkv_bias = json.value("attention_bias", false), // o_proj has none
                              .norm = json.value("use_qk_norm", false) ? qk_norm_kind::per_head
                                                                       : qk_norm_kind::none,
                              .norm_epsilon = norm.epsilon};
  noaux_layers blocks(json, num_layers, {}, config);
  for (std::size_t i = 0; i < num_layers; ++i) {
    layer_builder layer(config, i);
    layer.attention_norm(norm);
    layer.attention(heads, parts);
    layer.mlp_norm(norm);
    blocks.add_to(layer, i);
    config.layers.push_back(layer.finish());
  }
  set_final_norm(config, norm);
}

} // namespace troupe::model
