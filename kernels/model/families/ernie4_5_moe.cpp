// ERNIE 4.5.
#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/families/layer_builder.hpp"
#include "kernels/model/families/rope_fields.hpp"

namespace troupe::model {

namespace {

/// Every moe_layer_interval-th layer from moe_layer_start_index to moe_layer_end_index.
std::vector<bool> sparse_layers(const json_object& json, std::size_t num_layers) {
  const auto start = json.value<std::int64_t>("moe_layer_start_index", 1);
  const auto end = json.value<std::int64_t>("moe_layer_end_index", -1);
  if (start < 0)
    json.fail("moe_layer_start_index", "must not be negative");
  if (end < -1)
    json.fail("moe_layer_end_index", "must be a layer, or -1 for the last one");
  const auto last = end == -1 ? static_cast<std::int64_t>(num_layers) - 1 : end;
  const auto step = json.has("moe_layer_interval") ? positive(json, "moe_layer_interval", max_dim) : 1;
  std::vector<bool> result(num_layers);
  for (std::size_t i = 0; i < num_layers; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    result[i] = (i + 1) % step == 0 && at >= start && at <= last;
  }
  return result;
}

} // namespace

void build_ernie4_5_moe(const json_object& json, std::size_t num_layers, model_config& config) {
  config.tie_word_embeddings = json.value("tie_word_embeddings", true);
  auto heads = read_heads(json, config.hidden);
  heads.rotation = kernels::rope_style::interleaved;
  read_rope(json, {.theta = 5e5}, heads.head_dim, config);
  const norm_parts norm{read_epsilon(json, 1e-5)};
  if (json.value("use_bias", false))
    json.fail("use_bias", "is not supported");
  const auto is_sparse = sparse_layers(json, num_layers);
  const auto experts_of_layer = read_experts(json, "moe_intermediate_size", "moe_k", 6);
  constexpr const char* num_shared = "moe_num_shared_experts";
  const auto shared =
      width_of_shared(json, num_shared, read_count(json, num_shared, 2, 0), experts_of_layer.intermediate);
  const auto least_sum = json.value("moe_norm_min", 1e-12);
  if (!(least_sum >= 0 && least_sum < 1))
    json.fail("moe_norm_min", "must lie between 0 and 1");
  if (const auto gate = json.value<std::string>("moe_gate", "topk"); gate != "topk")
    json.fail("moe_gate", "is '" + gate + "', which is not supported (supported: topk)");
  for (const auto* key :
       {"moe_capacity", "moe_use_aux_free", "num_nextn_predict_layers", "intermediate_size"})
    json.ignore(key); // training, heads that predict further tokens, or read below
  for (std::size_t i = 0; i < num_layers; ++i) {
    layer_builder layer(config, i);
    layer.attention_norm(norm);
    layer.attention(heads, {});
    layer.mlp_norm(norm);
    if (is_sparse[i]) {
      auto experts = experts_of_layer;
      layer.name_experts(experts, "mlp");
      auto bias = layer.tensor("mlp.moe_statics.e_score_correction_bias", {1, experts.num_experts});
      // transformers 5 saves it below the gate.
      bias.also.push_back(
          {layer.tensor("mlp.gate.moe_statics.e_score_correction_bias", {}).name, bias.shape});
      layer.route("mlp",
                  {.choice_bias = std::move(bias),
                   .renormalise = true,
                   .least_sum = static_cast<float>(least_sum),
                   .experts = experts},
                  "gate.weight", matrix_storage::exact);
      if (shared != 0)
        layer.shared_expert("mlp.shared_experts", shared);
      layer.combine();
      if (shared != 0)
        layer.add_mlp();
    } else {
      layer.dense_mlp("mlp", positive(json, "intermediate_size", max_dim));
    }
    config.layers.push_back(layer.finish());
  }
  set_final_norm(config, norm);
  config.ignored_tensors = {"model.mtp_"};
}

} // namespace troupe::model
