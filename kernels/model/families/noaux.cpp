#include "kernels/model/families/noaux.hpp"

#include "kernels/model/families/fields.hpp"

#include <algorithm>
#include <utility>

namespace troupe::model {

namespace {

/// Every moe_layer_freq-th layer behind the first first_k_dense_replace ones; or as mlp_layer_types says.
std::vector<bool> sparse_layers(const json_object& json, std::size_t num_layers, std::size_t dense_layers) {
  const auto first = json.value("first_k_dense_replace", static_cast<std::int64_t>(dense_layers));
  if (first < 0)
    json.fail("first_k_dense_replace", "must not be negative");
  const auto step = json.has("moe_layer_freq") ? positive(json, "moe_layer_freq", max_dim) : 1;
  std::vector<bool> result(num_layers);
  for (std::size_t i = 0; i < num_layers; ++i)
    result[i] = static_cast<std::int64_t>(i) >= first && i % step == 0;
  const auto types = json.find<std::vector<std::string>>("mlp_layer_types");
  if (!types)
    return result;
  if (types->size() != num_layers)
    json.fail("mlp_layer_types", "must have one entry per layer");
  for (std::size_t i = 0; i < num_layers; ++i) {
    const bool is_sparse = (*types)[i] == "sparse";
    if (!is_sparse && (*types)[i] != "dense")
      json.fail("mlp_layer_types", "has unsupported type '" + (*types)[i] + "'");
    if (json.has("first_k_dense_replace") && is_sparse != result[i])
      json.fail("mlp_layer_types", "differs from first_k_dense_replace and moe_layer_freq");
    result[i] = is_sparse;
  }
  return result;
}

} // namespace

noaux_layers::noaux_layers(const json_object& json, std::size_t num_layers, const noaux_defaults& defaults,
                           model_config& config)
    : is_sparse_(sparse_layers(json, num_layers, defaults.dense_layers)) {
  const auto has = [&](bool kind) { return std::ranges::find(is_sparse_, kind) != is_sparse_.end(); };
  if (has(false))
    dense_ = positive(json, "intermediate_size", max_dim);
  json.ignore("intermediate_size");
  if (has(true)) {
    auto& experts = router_.experts;
    experts = read_experts(json, "moe_intermediate_size");
    constexpr const char* shared = "n_shared_experts";
    shared_ = width_of_shared(json, shared, read_count(json, shared, defaults.shared_experts, 0),
                              experts.intermediate);
    for (const auto* key : {"moe_shared_expert_intermediate_size", "shared_expert_intermediate_size"})
      if (const auto width = read_count(json, key, 0, 0); width != 0 && width != shared_)
        json.fail(key, "differs from n_shared_experts · moe_intermediate_size");
    read_router(json, defaults);
  }
  ignore_predict_layers(json, "num_nextn_predict_layers", num_layers, config);
  // Training and bookkeeping.
  for (const auto* key : {"aux_loss_alpha", "ep_size", "pretraining_tp", "seq_aux"})
    json.ignore(key);
}

void noaux_layers::read_router(const json_object& json, const noaux_defaults& defaults) {
  const auto method = json.value<std::string>("topk_method", defaults.topk_method);
  const bool is_noaux = method == "noaux_tc";
  // "noaux_tc" is published as a scoring function, too, and means sigmoid.
  const auto scoring = json.value<std::string>("scoring_func", is_noaux ? "sigmoid" : "softmax");
  if (scoring == "sigmoid" || scoring == "noaux_tc")
    router_.score = kernels::router_score::sigmoid;
  else if (scoring != "softmax")
    json.fail("scoring_func", "is '" + scoring + "', which is not supported (supported: sigmoid, softmax)");
  has_choice_bias_ = is_noaux;
  if (is_noaux || method == "group_limited_greedy") {
    const auto num_groups = read_count(json, "n_group", defaults.num_groups, 1);
    router_.groups = {.count = num_groups,
                      .kept = read_count(json, "topk_group", num_groups == 1 ? 1 : defaults.kept_groups, 1),
                      .rank = is_noaux ? kernels::group_rank::sum_of_two : kernels::group_rank::largest};
    if (!router_.groups.fit(router_.experts.num_experts, router_.experts.num_topk))
      json.fail("n_group", "of " + std::to_string(router_.groups.count) + " with topk_group of "
                               + std::to_string(router_.groups.kept) + " does not suit "
                               + std::to_string(router_.experts.num_experts) + " experts, "
                               + std::to_string(router_.experts.num_topk) + " per token");
  } else if (method != "greedy") {
    json.fail("topk_method", "is '" + method
                                 + "', which is not supported (supported: greedy, group_limited_greedy, "
                                   "noaux_tc)");
  }
  json.ignore("n_group");
  json.ignore("topk_group");
  router_.renormalise = json.value("norm_topk_prob", defaults.renormalise);
  router_.sum_offset = 1e-20F;
  const auto scale = read_factor(json, "routed_scaling_factor", defaults.scale);
  // DeepSeek-V2 normalizes in place of scaling.
  router_.scale = !is_noaux && router_.renormalise ? 1.0F : scale;
}

void noaux_layers::add_to(layer_builder& layer, std::size_t index) {
  if (!is_sparse_[index]) {
    layer.dense_mlp("mlp", dense_);
    return;
  }
  auto route = router_;
  layer.name_experts(route.experts, "mlp");
  if (has_choice_bias_)
    route.choice_bias = layer.tensor("mlp.gate.e_score_correction_bias", {route.experts.num_experts});
  layer.route("mlp", std::move(route), "gate.weight", matrix_storage::exact);
  if (shared_ != 0)
    layer.shared_expert("mlp.shared_experts", shared_);
  layer.combine();
  if (shared_ != 0)
    layer.add_mlp();
}

} // namespace troupe::model
