#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/families/layer_builder.hpp"
#include "kernels/model/families/rope_fields.hpp"

namespace troupe::model {

void build_olmoe(const json_object& json, std::size_t num_layers, model_config& config) {
  const norm_parts norm{read_epsilon(json, 1e-5)};
  const auto heads = read_heads(json, config.hidden);
  if (heads.query_width() != config.hidden)
    json.fail("head_dim", "must be hidden_size / num_attention_heads for this architecture");
  read_rope(json, {.theta = 1e4}, heads.head_dim, config);
  const bool has_bias = json.value("attention_bias", false);
  if (json.value("clip_qkv", 0.0) != 0.0)
    json.fail("clip_qkv", "is not supported"); // no published checkpoint sets it
  if (read_window(json) != 0)
    json.fail("sliding_window", "is not supported for this architecture"); // eager and flash attention differ
  check_layer_types(json, 0);
  auto experts = read_experts(json, "intermediate_size");
  const bool renormalise = json.value("norm_topk_prob", false);
  for (std::size_t i = 0; i < num_layers; ++i) {
    layer_builder layer(config, i);
    layer.attention_norm(norm);
    layer.attention(heads, {.qkv_bias = has_bias,
                            .output_bias = has_bias,
                            .norm = qk_norm_kind::projection,
                            .norm_epsilon = norm.epsilon});
    layer.mlp_norm(norm);
    layer.name_experts(experts, "mlp");
    layer.route("mlp", {.renormalise = renormalise, .experts = experts});
    layer.combine();
    config.layers.push_back(layer.finish());
  }
  set_final_norm(config, norm);
}

} // namespace troupe::model
