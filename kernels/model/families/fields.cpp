#include "kernels/model/families/fields.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace troupe::model {

namespace {

/// The first of these names that the object has, or null. Those that it has must have one value.
const char* first_of(const json_object& json, std::initializer_list<const char*> names) {
  const char* first = nullptr;
  for (const auto* name : names) {
    if (!json.has(name))
      continue;
    if (first == nullptr)
      first = name;
    else if (json.at<std::int64_t>(name) != json.at<std::int64_t>(first))
      json.fail(name, std::string{"differs from "} + first);
  }
  return first;
}

} // namespace

std::size_t positive(const json_object& json, const std::string& key, std::int64_t max) {
  const auto value = json.at<std::int64_t>(key);
  if (value < 1 || value > max)
    json.fail(key, "must lie in 1.." + std::to_string(max) + ", found " + std::to_string(value));
  return static_cast<std::size_t>(value);
}

const char* key_of(const json_object& json, const char* usual, const char* gpt2) {
  return json.has(gpt2) && !json.has(usual) ? gpt2 : usual;
}

float read_factor(const json_object& json, const char* key, double fallback) {
  const auto value = json.value(key, fallback);
  if (!(value >= 1e-6 && value <= 1e6))
    json.fail(key, "must lie between 1e-6 and 1e6");
  return static_cast<float>(value);
}

float read_epsilon(const json_object& json, double fallback) {
  const auto epsilon = json.value<double>("rms_norm_eps", fallback);
  if (!(static_cast<float>(epsilon) > 0 && epsilon < 1))
    json.fail("rms_norm_eps", "must lie between 0 and 1");
  return static_cast<float>(epsilon);
}

attend_op read_heads(const json_object& json, std::size_t hidden, const char* head_dim_key) {
  attend_op result;
  result.num_heads = positive(json, key_of(json, "num_attention_heads", "n_head"), max_heads);
  result.num_kv_heads =
      json.has("num_key_value_heads") ? positive(json, "num_key_value_heads", max_heads) : result.num_heads;
  if (result.num_heads % result.num_kv_heads != 0)
    json.fail("num_key_value_heads", "must divide num_attention_heads");
  if (json.has(head_dim_key))
    result.head_dim = positive(json, head_dim_key, max_heads);
  else if (hidden % result.num_heads == 0)
    result.head_dim = hidden / result.num_heads;
  else
    json.fail("num_attention_heads", "must divide hidden_size where head_dim is not given");
  // Limits of the KV cache's layout (kernels/kv_cache.hpp).
  if (result.head_dim % 8 != 0 || result.head_dim > 256)
    json.fail(head_dim_key, "must be a multiple of 8 up to 256, found " + std::to_string(result.head_dim));
  result.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(result.head_dim)));
  return result;
}

std::size_t read_count(const json_object& json, const char* key, std::size_t if_absent, std::size_t if_null) {
  if (!json.is_given(key))
    return if_absent;
  return json.value<std::int64_t>(key, 0) == 0 ? if_null : positive(json, key, max_dim);
}

void ignore_predict_layers(const json_object& json, const char* key, std::size_t num_layers,
                           model_config& config) {
  const auto count = read_count(json, key, 0, 0);
  if (count > max_predict_layers)
    json.fail(key, "must be at most " + std::to_string(max_predict_layers));
  for (std::size_t i = 0; i < count; ++i)
    config.ignored_tensors.push_back("model.layers." + std::to_string(num_layers + i) + ".");
}

std::size_t read_num_experts(const json_object& json) {
  const auto* key =
      first_of(json, {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"});
  if (key == nullptr)
    json.fail("num_experts",
              "is missing (other names: num_local_experts, n_routed_experts, moe_num_experts)");
  const auto found = json.at<std::int64_t>(key);
  if (found < 0 || found > max_experts)
    json.fail(key, "must lie in 0.." + std::to_string(max_experts));
  return static_cast<std::size_t>(found);
}

std::size_t read_topk(const json_object& json, const char* key, std::size_t num_experts,
                      std::size_t if_absent) {
  first_of(json, {key, "num_experts_per_tok", "experts_per_token", "moe_k"});
  const auto most = std::min(num_experts, max_topk);
  if (json.has(key) || if_absent == 0)
    return positive(json, key, static_cast<std::int64_t>(most));
  if (if_absent > most)
    json.fail(key, "is missing, and " + std::to_string(if_absent) + ", which that means, is more than "
                       + std::to_string(most));
  return if_absent;
}

moe_spec read_experts(const json_object& json, const char* intermediate_key, const char* topk_key,
                      std::size_t topk_if_absent) {
  moe_spec result;
  result.num_experts = read_num_experts(json);
  if (result.num_experts == 0)
    json.fail("num_experts", "must be at least 1");
  result.num_topk = read_topk(json, topk_key, result.num_experts, topk_if_absent);
  result.intermediate = positive(json, intermediate_key, max_dim);
  return result;
}

std::size_t width_of_shared(const json_object& json, const char* key, std::size_t count,
                            std::size_t intermediate) {
  if (count * intermediate > static_cast<std::size_t>(max_dim))
    json.fail(key, "makes an MLP of " + std::to_string(count * intermediate) + ", at most "
                       + std::to_string(max_dim) + " is supported");
  return count * intermediate;
}

std::size_t read_window(const json_object& json) {
  return json.value<std::int64_t>("sliding_window", 0) == 0 ? 0 : positive(json, "sliding_window", max_dim);
}

void check_layer_types(const json_object& json, std::size_t window) {
  const std::string expected = window == 0 ? "full_attention" : "sliding_attention";
  for (const auto& type : json.value<std::vector<std::string>>("layer_types", {}))
    if (type != expected)
      json.fail("layer_types", "has '" + type + "', which is not supported where every layer has "
                                   + (window == 0 ? "no window" : "the same window"));
}

std::optional<std::vector<bool>> read_layer_types(const json_object& json, std::size_t num_layers,
                                                  std::size_t window) {
  const auto types = json.find<std::vector<std::string>>("layer_types");
  if (!types)
    return std::nullopt;
  if (types->size() != num_layers)
    json.fail("layer_types", "must have one entry per layer");
  std::vector<bool> slides(num_layers);
  for (std::size_t i = 0; i < num_layers; ++i) {
    slides[i] = (*types)[i] == "sliding_attention";
    if (!slides[i] && (*types)[i] != "full_attention")
      json.fail("layer_types", "has unsupported type '" + (*types)[i] + "'");
    if (slides[i] && window == 0)
      json.fail("layer_types",
                "names sliding_attention, but there is no window: sliding_window is not set, or "
                "use_sliding_window is not");
  }
  return slides;
}

std::vector<bool> read_sparse_layers(const json_object& json, std::size_t num_layers) {
  std::vector<bool> result(num_layers);
  const auto step = json.has("decoder_sparse_step") ? positive(json, "decoder_sparse_step", max_dim) : 1;
  for (std::size_t i = 0; i < num_layers; ++i)
    result[i] = (i + 1) % step == 0;
  for (const auto layer : json.value<std::vector<std::int64_t>>("mlp_only_layers", {})) {
    if (layer < 0 || static_cast<std::size_t>(layer) >= num_layers)
      json.fail("mlp_only_layers",
                "names layer " + std::to_string(layer) + " of " + std::to_string(num_layers));
    result[static_cast<std::size_t>(layer)] = false;
  }
  return result;
}

} // namespace troupe::model
