// GPT-MoE: GPT-2's decoder with experts in every second layer, as Megatron-DeepSpeed trains it.
#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/families/layer_builder.hpp"

#include <algorithm>

namespace troupe::model {

namespace {

kernels::activation read_activation(const json_object& json) {
  const auto name = json.value<std::string>("activation_function", "gelu_new");
  if (name == "gelu")
    return kernels::activation::gelu_erf;
  if (name != "gelu_new" && name != "gelu_pytorch_tanh")
    json.fail("activation_function", "is '" + name
                                         + "', which is not supported (supported: gelu, gelu_new, "
                                           "gelu_pytorch_tanh)");
  return kernels::activation::gelu_tanh;
}

/// Experts of each layer: those of num_experts in every expert_interval-th layer. 1: a dense MLP.
std::vector<std::size_t> read_counts(const json_object& json, std::size_t num_layers) {
  const auto interval = json.has("expert_interval") ? positive(json, "expert_interval", max_dim) : 2;
  const auto given = json.one_or_many("num_experts");
  if (given.empty())
    json.fail("num_experts", "is missing");
  if (given.size() != 1 && given.size() != num_layers / interval)
    json.fail("num_experts",
              "must be one number, or " + std::to_string(num_layers / interval) + ": one per routed layer");
  for (const auto count : given)
    if (count < 1 || count > max_experts)
      json.fail("num_experts", "must lie in 1.." + std::to_string(max_experts));
  std::vector<std::size_t> result(num_layers, 1);
  for (std::size_t i = interval - 1, routed = 0; i < num_layers; i += interval, ++routed)
    result[i] = static_cast<std::size_t>(given[given.size() == 1 ? 0 : routed]);
  return result;
}

std::size_t read_gate_topk(const json_object& json, const std::vector<std::size_t>& counts) {
  if (!json.has("num_experts_per_tok"))
    return 1;
  const auto topk = positive(json, "num_experts_per_tok", 2);
  if (std::ranges::any_of(counts, [&](std::size_t count) { return count != 1 && count < topk; }))
    json.fail("num_experts_per_tok", "is more than the experts of a layer");
  return topk;
}

void refuse_other_arithmetic(const json_object& json) {
  if (json.value<std::string>("mlp_type", "standard") != "standard")
    json.fail("mlp_type", "must be 'standard': residual experts (PR-MoE) are not implemented");
  if (!json.value("scale_attn_weights", true))
    json.fail("scale_attn_weights", "must be true");
  for (const auto* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"})
    if (json.value(key, false))
      json.fail(key, "is not supported");
  for (const auto* key :
       {"attn_pdrop", "gradient_checkpointing", "n_ctx", "reorder_and_upcast_attn", "summary_activation",
        "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"})
    json.ignore(key);
}

/// The norms' own name for rms_norm_eps.
float read_norm_epsilon(const json_object& json) {
  const auto epsilon = json.value("layer_norm_epsilon", 1e-5);
  if (!(epsilon > 0 && epsilon < 1))
    json.fail("layer_norm_epsilon", "must lie between 0 and 1");
  return static_cast<float>(epsilon);
}

matrix_ref linear(const layer_builder& layer, const std::string& name, std::size_t outputs,
                  std::size_t inputs) {
  return {.parts = {layer.tensor(name + ".weight", {outputs, inputs})},
          .biases = {layer.tensor(name + ".bias", {outputs})}};
}

mlp_ref dense_mlp(const layer_builder& layer, const moe_spec& like) {
  return {
      .name = layer.tensor("mlp.", {}).name,
      .gate = layer.tensor("mlp.dense_h_to_4h.weight", {like.intermediate, like.hidden}),
      .down = layer.tensor("mlp.dense_4h_to_h.weight", {like.hidden, like.intermediate}),
      .act = like.act,
      .biases = {layer.tensor("mlp.dense_h_to_4h.bias", {like.intermediate}),
                 layer.tensor("mlp.dense_4h_to_h.bias", {like.hidden})},
  };
}

} // namespace

void build_gpt_moe(const json_object& json, std::size_t num_layers, model_config& config) {
  const std::string root = "language_model.";
  config.embeddings.name = root + "embedding.word_embeddings.weight";
  config.position_embeddings = {root + "embedding.position_embeddings.weight",
                                {config.max_context, config.hidden}};
  config.lm_head.name = root + "output_layer.weight";
  config.final_norm.weight.name = root + "encoder.final_layernorm.weight";
  config.tie_word_embeddings = json.value("tie_word_embeddings", true);
  refuse_other_arithmetic(json);
  auto heads = read_heads(json, config.hidden);
  if (heads.num_kv_heads != heads.num_heads)
    json.fail("num_key_value_heads", "must equal the number of heads");
  heads.rotation.reset();
  const norm_parts norm{read_norm_epsilon(json), norm_kind::layer};
  const auto counts = read_counts(json, num_layers);
  moe_spec experts{.num_topk = read_gate_topk(json, counts),
                   .intermediate =
                       json.has("n_inner") ? positive(json, "n_inner", max_dim) : 4 * config.hidden,
                   .hidden = config.hidden,
                   .act = read_activation(json),
                   .has_bias = true,
                   .gate = "dense_h_to_4h",
                   .down = "dense_4h_to_h"};
  for (std::size_t i = 0; i < num_layers; ++i) {
    layer_builder layer(config, i, root + "encoder.");
    layer.attention_norm(norm);
    const auto width = heads.query_width();
    layer.add(
        project_op{.matrix = linear(layer, "self_attention.query_key_value", 3 * width, config.hidden)});
    layer.add(heads);
    layer.add(project_op{.from = rows_of::attended,
                         .to = rows_of::residual,
                         .matrix = linear(layer, "self_attention.dense", config.hidden, width)});
    layer.mlp_norm(norm);
    if (counts[i] == 1) {
      layer.add(feed_forward_op{dense_mlp(layer, experts)});
      layer.add_mlp();
    } else {
      experts.num_experts = counts[i];
      experts.prefix = layer.tensor("mlp.deepspeed_moe.experts.deepspeed_experts.", {}).name;
      layer.route("mlp.deepspeed_moe", {.renormalise = experts.num_topk == 2, .experts = experts},
                  "gate.wg.weight", matrix_storage::exact);
      layer.combine();
    }
    config.layers.push_back(layer.finish());
  }
  set_final_norm(config, norm);
}

} // namespace troupe::model
