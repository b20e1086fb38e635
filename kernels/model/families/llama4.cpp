// The text model of Llama 4 Scout and Maverick.
#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/families/layer_builder.hpp"
#include "kernels/model/families/rope_fields.hpp"

namespace troupe::model {

namespace {

constexpr const char* root = "language_model.model.";

/// moe_layers, or every interleave_moe_layer_step-th.
std::vector<bool> sparse_layers(const json_object& json, std::size_t num_layers) {
  const auto step =
      json.has("interleave_moe_layer_step") ? positive(json, "interleave_moe_layer_step", max_dim) : 1;
  std::vector<bool> result(num_layers);
  if (const auto listed = json.find<std::vector<std::int64_t>>("moe_layers")) {
    for (const auto layer : *listed) {
      if (layer < 0 || static_cast<std::size_t>(layer) >= num_layers)
        json.fail("moe_layers", "names layer " + std::to_string(layer) + " of " + std::to_string(num_layers));
      result[static_cast<std::size_t>(layer)] = true;
    }
    return result;
  }
  for (std::size_t i = 0; i < num_layers; ++i)
    result[i] = (i + 1) % step == 0;
  return result;
}

/// no_rope_layers has a 1 where a layer rotates; without it every no_rope_layer_interval-th does not.
std::vector<bool> rotated_layers(const json_object& json, std::size_t num_layers) {
  const auto listed = json.value<std::vector<std::int64_t>>("no_rope_layers", {});
  if (!listed.empty() && listed.size() != num_layers)
    json.fail("no_rope_layers", "must have one entry per layer");
  const auto step =
      json.has("no_rope_layer_interval") ? positive(json, "no_rope_layer_interval", max_dim) : 4;
  std::vector<bool> result(num_layers);
  for (std::size_t i = 0; i < num_layers; ++i)
    result[i] = listed.empty() ? (i + 1) % step != 0 : listed[i] != 0;
  return result;
}

/// layer_types may only repeat that layers which rotate attend to their chunk.
void check_attention_types(const json_object& json, const std::vector<bool>& is_rotated) {
  const auto types = json.find<std::vector<std::string>>("layer_types");
  if (!types)
    return;
  if (types->size() != is_rotated.size())
    json.fail("layer_types", "must have one entry per layer");
  for (std::size_t i = 0; i < types->size(); ++i)
    if ((*types)[i] != (is_rotated[i] ? "chunked_attention" : "full_attention"))
      json.fail("layer_types", "has '" + (*types)[i] + "' for layer " + std::to_string(i)
                                   + ", which differs from no_rope_layers");
}

} // namespace

void build_llama4(const json_object& json, std::size_t num_layers, model_config& config) {
  config.embeddings.name = std::string{root} + "embed_tokens.weight";
  config.lm_head.name = "language_model.lm_head.weight";
  config.final_norm.weight.name = std::string{root} + "norm.weight";
  config.ignored_tensors = {"vision_model.", "multi_modal_projector."};
  const auto heads = read_heads(json, config.hidden);
  read_rope(json, {.theta = 5e5}, heads.head_dim, config);
  const norm_parts norm{read_epsilon(json, 1e-5)};
  if (json.value("attention_bias", false))
    json.fail("attention_bias", "is not supported for this architecture");
  auto rotated = heads;
  rotated.rotation = kernels::rope_style::interleaved;
  rotated.chunk = read_count(json, "attention_chunk_size", 8192, 0);
  if (json.value("use_qk_norm", true))
    rotated.norm = {.follows_rotation = true, .epsilon = norm.epsilon};
  auto still = heads;
  still.rotation.reset();
  // Published as true, or as a number.
  if (json.text("attn_temperature_tuning").find_first_of("\"[{") == 0)
    json.fail("attn_temperature_tuning", "must be true, false or a number");
  const bool is_tuned =
      json.is_given("attn_temperature_tuning") ? json.says_something("attn_temperature_tuning") : true;
  const query_temperature temperature{read_factor(json, "attn_scale", 0.1),
                                      read_factor(json, "floor_scale", 8192.0)};
  if (is_tuned)
    still.temperature = temperature;
  json.ignore("attn_temperature_tuning");
  const auto is_rotated = rotated_layers(json, num_layers);
  check_attention_types(json, is_rotated);
  const auto is_sparse = sparse_layers(json, num_layers);
  auto experts = read_experts(json, "intermediate_size");
  if (experts.num_topk != 1)
    json.fail("num_experts_per_tok", "must be 1 for this architecture");
  for (const auto* key : {"for_llm_compressor", "router_jitter_noise", "intermediate_size_mlp"})
    json.ignore(key); // training, or read below
  for (std::size_t i = 0; i < num_layers; ++i) {
    layer_builder layer(config, i, root);
    layer.attention_norm(norm);
    layer.attention(is_rotated[i] ? rotated : still, {});
    layer.mlp_norm(norm);
    if (is_sparse[i]) {
      layer.name_experts(experts, "feed_forward");
      const auto block = layer.tensor("feed_forward.experts.", {}).name;
      experts.fused = {{.gate_up = block + "gate_up_proj",
                        .down = block + "down_proj",
                        .order = fused_experts::layout::columns}};
      experts.is_always_fused = true;
      layer.route("feed_forward",
                  {.score = kernels::router_score::sigmoid, .weighs_input = true, .experts = experts},
                  "router.weight");
      layer.shared_expert("feed_forward.shared_expert", experts.intermediate);
      layer.combine();
      layer.add_mlp();
    } else {
      layer.dense_mlp("feed_forward", positive(json, "intermediate_size_mlp", max_dim));
    }
    config.layers.push_back(layer.finish());
  }
  set_final_norm(config, norm);
}

} // namespace troupe::model
