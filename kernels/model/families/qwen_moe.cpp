// Qwen2-MoE (Qwen1.5-MoE) and Qwen3-MoE: dense layers between the routed ones.
#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/families/layer_builder.hpp"
#include "kernels/model/families/rope_fields.hpp"

namespace troupe::model {

namespace {

constexpr double default_epsilon = 1e-6;

/// The common part.
/// @param windows  of each layer
/// @param shared   size of the shared expert; 0: none
void build_qwen(const json_object& json, attend_op heads, const attention_parts& parts,
                const std::vector<std::size_t>& windows, std::size_t shared, model_config& config) {
  read_rope(json, {.theta = 1e4}, heads.head_dim, config);
  const norm_parts norm{read_epsilon(json, default_epsilon)};
  auto sparse = read_sparse_layers(json, windows.size());
  if (read_num_experts(json) == 0)
    sparse.assign(windows.size(), false);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    layer_builder layer(config, i);
    layer.attention_norm(norm);
    heads.window = windows[i];
    layer.attention(heads, parts);
    layer.mlp_norm(norm);
    if (sparse[i]) {
      auto experts = read_experts(json, "moe_intermediate_size");
      layer.name_experts(experts, "mlp");
      layer.route("mlp", {.renormalise = json.value("norm_topk_prob", false), .experts = experts});
      if (shared != 0)
        layer.shared_expert("mlp.shared_expert", shared);
      layer.combine();
      if (shared != 0)
        layer.add_mlp("mlp.shared_expert_gate.weight");
    } else {
      layer.dense_mlp("mlp", positive(json, "intermediate_size", max_dim));
    }
    config.layers.push_back(layer.finish());
  }
  set_final_norm(config, norm);
  // Shapes of absent layers count as understood, too.
  for (const auto* key :
       {"intermediate_size", "moe_intermediate_size", "num_experts_per_tok", "norm_topk_prob"})
    json.ignore(key);
}

} // namespace

void build_qwen2_moe(const json_object& json, std::size_t num_layers, model_config& config) {
  const auto heads = read_heads(json, config.hidden);
  const attention_parts parts{.qkv_bias = json.value("qkv_bias", true)};
  const auto shared = json.at<std::int64_t>("shared_expert_intermediate_size") == 0
                          ? 0
                          : positive(json, "shared_expert_intermediate_size", max_dim);
  const auto use_window = json.value("use_sliding_window", false);
  const auto window = use_window ? read_window(json) : 0;
  const auto max_window_layers = json.value<std::int64_t>("max_window_layers", 28);
  const auto types = read_layer_types(json, num_layers, window);
  std::vector<std::size_t> windows(num_layers);
  for (std::size_t i = 0; i < num_layers; ++i) {
    // Without layer_types, transformers slides every other layer below max_window_layers (Qwen2MoeConfig).
    const auto slides =
        types ? (*types)[i] : use_window && i % 2 == 0 && static_cast<std::int64_t>(i) < max_window_layers;
    windows[i] = slides ? window : 0;
  }
  build_qwen(json, heads, parts, windows, shared, config);
  json.ignore("sliding_window");
}

void build_qwen3_moe(const json_object& json, std::size_t num_layers, model_config& config) {
  const auto heads = read_heads(json, config.hidden);
  const bool has_bias = json.value("attention_bias", false);
  const attention_parts parts{.qkv_bias = has_bias,
                              .output_bias = has_bias,
                              .norm = qk_norm_kind::per_head,
                              .norm_epsilon = read_epsilon(json, default_epsilon)};
  // transformers slides every layer or none, and ignores max_window_layers (Qwen3MoeConfig).
  const auto window = json.value("use_sliding_window", false) ? read_window(json) : 0;
  check_layer_types(json, window);
  json.ignore("sliding_window");
  json.ignore("max_window_layers");
  build_qwen(json, heads, parts, std::vector<std::size_t>(num_layers, window), 0, config);
}

} // namespace troupe::model
