// MiniMax-M2.
#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/families/layer_builder.hpp"
#include "kernels/model/families/rope_fields.hpp"

#include <algorithm>

namespace troupe::model {

void build_minimax_m2(const json_object& json, std::size_t num_layers, model_config& config) {
  const auto heads = read_heads(json, config.hidden);
  // The older spelling of partial_rotary_factor.
  const auto rotary_dim = json.has("rotary_dim")
                              ? positive(json, "rotary_dim", static_cast<std::int64_t>(heads.head_dim))
                              : heads.head_dim;
  read_rope(json,
            {.theta = 5e6,
             .partial = static_cast<double>(rotary_dim) / static_cast<double>(heads.head_dim),
             .may_be_partial = true},
            heads.head_dim, config);
  if (json.has("rotary_dim") && config.rope.rotary_dim != rotary_dim)
    json.fail("rotary_dim", "differs from partial_rotary_factor");
  const norm_parts norm{read_epsilon(json, 1e-6)};
  if (!json.value("use_qk_norm", true))
    json.fail("use_qk_norm", "other than true is not supported");
  if (const auto type = json.value<std::string>("qk_norm_type", "per_layer"); type != "per_layer")
    json.fail("qk_norm_type", "is '" + type + "', which is not supported (supported: per_layer)");
  if (const auto score = json.value<std::string>("scoring_func", "sigmoid"); score != "sigmoid")
    json.fail("scoring_func", "is '" + score + "', which is not supported (supported: sigmoid)");
  if (json.value<std::int64_t>("shared_intermediate_size", 0) != 0)
    json.fail("shared_intermediate_size", "other than 0 is not supported");
  const auto kinds = json.value<std::vector<std::int64_t>>("attn_type_list", {});
  if (std::ranges::any_of(kinds, [](auto kind) { return kind != 1; }))
    json.fail("attn_type_list", "names layers with linear attention, which is not supported");
  const bool has_bias = json.value("use_routing_bias", true);
  const attention_parts parts{.norm = qk_norm_kind::projection, .norm_epsilon = norm.epsilon};
  auto experts = read_experts(json, "intermediate_size");
  ignore_predict_layers(json, "num_mtp_modules", num_layers, config);
  for (const auto* key : {"use_mtp", "mtp_transformer_layers"})
    json.ignore(key);
  for (std::size_t i = 0; i < num_layers; ++i) {
    layer_builder layer(config, i);
    layer.attention_norm(norm);
    layer.attention(heads, parts);
    layer.mlp_norm(norm);
    layer.name_experts(experts, "block_sparse_moe", "w1", "w3", "w2");
    route_op route{.score = kernels::router_score::sigmoid,
                   .renormalise = true,
                   .sum_offset = 1e-20F,
                   .experts = experts};
    if (has_bias)
      route.choice_bias = layer.tensor("block_sparse_moe.e_score_correction_bias", {experts.num_experts});
    layer.route("block_sparse_moe", std::move(route), "gate.weight", matrix_storage::exact);
    layer.combine();
    config.layers.push_back(layer.finish());
  }
  set_final_norm(config, norm);
}

} // namespace troupe::model
