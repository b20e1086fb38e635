// DeepSeek-V2, DeepSeek-V3 and what shares their code: R1, Kimi-K2, Moonlight, GLM-4.7-Flash.
#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/families/latent_attention.hpp"
#include "kernels/model/families/noaux.hpp"
#include "kernels/model/families/rope_fields.hpp"

namespace troupe::model {

namespace {

void build(const json_object& json, std::size_t num_layers, const noaux_defaults& defaults, double epsilon,
           model_config& config) {
  const auto rope_dim = positive(json, "qk_rope_head_dim", max_heads);
  read_rope(json, {.theta = 1e4}, rope_dim, config);
  const latent_attention attention(json, rope_dim, num_layers, config);
  const norm_parts norm{read_epsilon(json, epsilon)};
  noaux_layers blocks(json, num_layers, defaults, config);
  for (std::size_t i = 0; i < num_layers; ++i) {
    layer_builder layer(config, i);
    layer.attention_norm(norm);
    attention.add_to(layer, config);
    layer.mlp_norm(norm);
    blocks.add_to(layer, i);
    config.layers.push_back(layer.finish());
  }
  set_final_norm(config, norm);
}

} // namespace

void build_deepseek_v2(const json_object& json, std::size_t num_layers, model_config& config) {
  build(json, num_layers,
        {.renormalise = false, .dense_layers = 0, .shared_experts = 2, .topk_method = "greedy"}, 1e-6,
        config);
}

void build_deepseek_v3(const json_object& json, std::size_t num_layers, model_config& config) {
  build(json, num_layers, {.num_groups = 8, .kept_groups = 4, .scale = 2.5, .dense_layers = 3}, 1e-6, config);
}

void build_glm4_moe_lite(const json_object& json, std::size_t num_layers, model_config& config) {
  build(json, num_layers, {.scale = 1.8}, 1e-5, config);
}

} // namespace troupe::model
