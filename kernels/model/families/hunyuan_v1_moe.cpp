// Hunyuan-A13B.
#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/families/layer_builder.hpp"
#include "kernels/model/families/rope_fields.hpp"

#include <algorithm>

namespace troupe::model {

namespace {

/// A field that is one number, or a list with one for each layer.
std::vector<std::size_t> per_layer(const json_object& json, const char* key, std::size_t num_layers,
                                   std::size_t fallback) {
  const auto values = json.one_or_many(key);
  if (values.empty())
    return std::vector<std::size_t>(num_layers, fallback);
  if (values.size() != 1 && values.size() != num_layers)
    json.fail(key, "must be a number, or have one entry per layer");
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < num_layers; ++i) {
    const auto value = values[values.size() == 1 ? 0 : i];
    if (value < 1 || value > max_dim)
      json.fail(key, "must have entries in 1.." + std::to_string(max_dim));
    result.push_back(static_cast<std::size_t>(value));
  }
  return result;
}

} // namespace

void build_hunyuan_v1_moe(const json_object& json, std::size_t num_layers, model_config& config) {
  // Its own code calls it attention_head_dim, transformers head_dim.
  const auto* head_dim = json.has("attention_head_dim") ? "attention_head_dim" : "head_dim";
  auto heads = read_heads(json, config.hidden, head_dim);
  if (json.value("head_dim", static_cast<std::int64_t>(heads.head_dim))
      != static_cast<std::int64_t>(heads.head_dim))
    json.fail("head_dim", "differs from attention_head_dim");
  read_rope(json, {.theta = 1e4}, heads.head_dim, config);
  const norm_parts norm{read_epsilon(json, 1e-5)};
  for (const auto* key : {"use_cla", "use_mla", "mlp_bias", "attention_bias", "position_embedding_xdrope",
                          "group_limited_greedy", "moe_layer_num_skipped"})
    if (json.says_something(key))
      json.fail(key, "is not supported");
  if (read_factor(json, "routed_scaling_factor", 1) != 1)
    json.fail("routed_scaling_factor", "other than 1 is not supported");
  if (!json.value("use_mixed_mlp_moe", true) || !json.value("norm_topk_prob", true))
    json.fail("use_mixed_mlp_moe", "and norm_topk_prob other than true are not supported");
  const attention_parts parts{.norm = json.value("use_qk_norm", true) ? qk_norm_kind::per_head
                                                                      : qk_norm_kind::none,
                              .norm_epsilon = norm.epsilon,
                              .norm_follows_rotation = true,
                              .query_norm = "query_layernorm",
                              .key_norm = "key_layernorm"};
  const auto shared = positive(json, "intermediate_size", max_dim);
  const auto num_experts = read_num_experts(json);
  const auto topk = per_layer(json, "moe_topk", num_layers, 1);
  const auto sizes = per_layer(json, "moe_intermediate_size", num_layers, shared);
  const auto num_shared = per_layer(json, "num_shared_expert", num_layers, 1);
  // Of other models of the family, of training, and of pictures.
  for (const auto* key : {"add_classification_head",
                          "anyres_pooling_size",
                          "anyres_vit_max_image_size",
                          "cla_share_factor",
                          "class_num",
                          "dense_list",
                          "eod_token_id",
                          "im_end_id",
                          "im_newline_id",
                          "im_start_id",
                          "image_token_id",
                          "mask_init_id",
                          "moe_drop_tokens",
                          "moe_random_routing_dropped_token",
                          "norm_type",
                          "num_media_embeds",
                          "org_vocab_size",
                          "pad_id",
                          "pool_type",
                          "pretraining_tp",
                          "skip_cls_token",
                          "text_end_id",
                          "text_start_id",
                          "use_rotary_pos_emb"})
    json.ignore(key);
  for (std::size_t i = 0; i < num_layers; ++i) {
    if (topk[i] > std::min(num_experts, max_topk))
      json.fail("moe_topk", "has " + std::to_string(topk[i]) + ", at most "
                                + std::to_string(std::min(num_experts, max_topk)) + " are possible");
    moe_spec experts;
    experts.num_experts = num_experts;
    experts.num_topk = topk[i];
    experts.intermediate = sizes[i];
    layer_builder layer(config, i);
    layer.attention_norm(norm);
    layer.attention(heads, parts);
    layer.mlp_norm(norm);
    layer.name_experts(experts, "mlp");
    layer.route("mlp", {.renormalise = true, .experts = experts}, "gate.wg.weight", matrix_storage::exact);
    layer.shared_expert("mlp.shared_mlp", width_of_shared(json, "num_shared_expert", num_shared[i], shared));
    layer.combine();
    layer.add_mlp();
    config.layers.push_back(layer.finish());
  }
  set_final_norm(config, norm);
}

} // namespace troupe::model
