// Phi-3.5-MoE, Phi-mini-MoE and Phi-tiny-MoE.
#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/families/layer_builder.hpp"
#include "kernels/model/families/rope_fields.hpp"

namespace troupe::model {

void build_phimoe(const json_object& json, std::size_t num_layers, model_config& config) {
  auto heads = read_heads(json, config.hidden);
  read_rope(json, {.theta = 1e6}, heads.head_dim, config);
  heads.window = read_window(json);
  check_layer_types(json, heads.window);
  const norm_parts norm{read_epsilon(json, 1e-5), norm_kind::layer};
  const bool has_bias = json.value("attention_bias", false);
  if (json.value("lm_head_bias", false))
    config.lm_head_bias = {"lm_head.bias", {config.vocab_size}};
  auto experts = read_experts(json, "intermediate_size");
  if (experts.num_topk != 2)
    json.fail("num_experts_per_tok", "must be 2 for this architecture");
  const auto jitter = json.value("router_jitter_noise", 0.01);
  if (!(jitter >= 0 && jitter < 1))
    json.fail("router_jitter_noise", "must lie between 0 and 1");
  json.ignore("input_jitter_noise"); // training only
  for (std::size_t i = 0; i < num_layers; ++i) {
    layer_builder layer(config, i);
    layer.attention_norm(norm);
    layer.attention(heads, {.qkv_bias = has_bias, .output_bias = has_bias});
    layer.mlp_norm(norm);
    layer.name_experts(experts, "block_sparse_moe", "w1", "w3", "w2");
    layer.route("block_sparse_moe", {.score = kernels::router_score::sparsemixer,
                                     .jitter = static_cast<float>(jitter),
                                     .experts = experts});
    layer.combine();
    config.layers.push_back(layer.finish());
  }
  set_final_norm(config, norm);
}

} // namespace troupe::model
