// gpt-oss.
#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/families/layer_builder.hpp"
#include "kernels/model/families/rope_fields.hpp"

namespace troupe::model {

void build_gpt_oss(const json_object& json, std::size_t num_layers, model_config& config) {
  auto heads = read_heads(json, config.hidden);
  read_rope(json, {.theta = 150000}, heads.head_dim, config);
  const norm_parts norm{read_epsilon(json, 1e-5)};
  const bool has_bias = json.value("attention_bias", true);
  const auto window = json.is_given("sliding_window") ? read_window(json) : 128;
  const auto types = read_layer_types(json, num_layers, window);
  auto experts = read_experts(json, "intermediate_size");
  json.ignore("initial_context_length"); // the trained context, as rope_scaling has it
  experts.act = kernels::activation::clamped_glu;
  experts.act_limit = read_factor(json, "swiglu_limit", 7.0);
  experts.has_bias = true;
  for (std::size_t i = 0; i < num_layers; ++i) {
    layer_builder layer(config, i);
    layer.attention_norm(norm);
    heads.window = (types ? (*types)[i] : i % 2 == 0) ? window : 0;
    heads.sinks = layer.tensor("self_attn.sinks", {heads.num_heads});
    layer.attention(heads, {.qkv_bias = has_bias, .output_bias = has_bias});
    layer.mlp_norm(norm);
    layer.name_experts(experts, "mlp");
    const auto block = layer.tensor("mlp.experts.", {}).name;
    experts.fused = {{.gate_up = block + "gate_up_proj",
                      .down = block + "down_proj",
                      .order = fused_experts::layout::interleaved,
                      .gate_up_bias = block + "gate_up_proj_bias",
                      .down_bias = block + "down_proj_bias"}};
    experts.is_always_fused = true;
    layer.route("mlp",
                {.matrix = {.biases = {layer.tensor("mlp.router.bias", {experts.num_experts})}},
                 .score = kernels::router_score::softmax_of_chosen,
                 .experts = experts},
                "router.weight");
    layer.combine();
    config.layers.push_back(layer.finish());
  }
  set_final_norm(config, norm);
}

} // namespace troupe::model
