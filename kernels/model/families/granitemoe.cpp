// Granite 3 MoE, with and without a shared MLP.
#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/families/layer_builder.hpp"
#include "kernels/model/families/rope_fields.hpp"

namespace troupe::model {

namespace {

/// The shared MLP: gate and up are one matrix.
mlp_ref shared_mlp(const layer_builder& layer, std::size_t hidden, std::size_t intermediate) {
  const auto block = layer.tensor("shared_mlp", {}).name;
  const std::vector<std::size_t> input{2 * intermediate, hidden};
  const auto half = [&](const char* what, std::size_t first) {
    const auto whole = block + ".input_linear.weight";
    return tensor_requirement{.name = whole + what,
                              .shape = {intermediate, hidden},
                              .also = {{.name = whole, .shape = input, .first = first}},
                              .is_part = true};
  };
  return {.name = block + ".",
          .gate = half("[gate]", 0),
          .up = half("[up]", intermediate * hidden),
          .down = {block + ".output_linear.weight", {hidden, intermediate}}};
}

} // namespace

void build_granitemoe(const json_object& json, std::size_t num_layers, model_config& config) {
  auto heads = read_heads(json, config.hidden);
  read_rope(json, {.theta = 1e4}, heads.head_dim, config);
  const norm_parts norm{read_epsilon(json, 1e-6)};
  config.embedding_scale = read_factor(json, "embedding_multiplier", 1.0);
  config.logits_divisor = read_factor(json, "logits_scaling", 1.0);
  heads.scale = read_factor(json, "attention_multiplier", 1.0);
  const auto residual_factor = read_factor(json, "residual_multiplier", 1.0);
  const bool has_bias = json.value("attention_bias", false);
  auto experts = read_experts(json, "intermediate_size");
  const auto shared = json.value<std::int64_t>("shared_intermediate_size", 0) == 0
                          ? 0
                          : positive(json, "shared_intermediate_size", max_dim);
  for (std::size_t i = 0; i < num_layers; ++i) {
    layer_builder layer(config, i, "model.", residual_factor);
    layer.attention_norm(norm);
    layer.attention(heads, {.qkv_bias = has_bias, .output_bias = has_bias});
    layer.mlp_norm(norm);
    layer.name_experts(experts, "block_sparse_moe");
    experts.fused = {{.gate_up = layer.tensor("block_sparse_moe.input_linear.weight", {}).name,
                      .down = layer.tensor("block_sparse_moe.output_linear.weight", {}).name}};
    experts.is_always_fused = true;
    layer.route("block_sparse_moe", {.score = kernels::router_score::softmax_of_chosen, .experts = experts},
                "router.layer.weight");
    if (shared != 0)
      layer.add(feed_forward_op{shared_mlp(layer, config.hidden, shared)});
    layer.combine();
    if (shared != 0)
      layer.add_mlp();
    config.layers.push_back(layer.finish());
  }
  set_final_norm(config, norm);
}

} // namespace troupe::model
