#include "kernels/model/architectures.hpp"

#include <algorithm>
#include <array>

namespace troupe::model {

namespace {

// Far beyond any published model, so that no product of two dimensions comes near 2⁶⁴.
constexpr std::int64_t max_heads = 1 << 14;
constexpr std::int64_t max_dim = 1 << 24;
constexpr std::int64_t max_experts = 1 << 16;
constexpr std::size_t max_topk = 64; // kernels/router.hpp

const tensor_naming llama_naming{"mlp", "gate_proj", "up_proj", "down_proj"};

norm_spec read_norm(const json_object& json, double fallback) {
  const auto epsilon = json.value<double>("rms_norm_eps", fallback);
  if (!(epsilon > 0 && epsilon < 1))
    json.fail("rms_norm_eps", "must lie between 0 and 1");
  return {norm_kind::rms, static_cast<float>(epsilon)};
}

attention_spec read_attention(const json_object& json, std::size_t hidden) {
  attention_spec result;
  result.num_heads = positive(json, "num_attention_heads", max_heads);
  result.num_kv_heads =
      json.has("num_key_value_heads") ? positive(json, "num_key_value_heads", max_heads) : result.num_heads;
  if (result.num_heads % result.num_kv_heads != 0)
    json.fail("num_key_value_heads", "must divide num_attention_heads");
  if (json.has("head_dim"))
    result.head_dim = positive(json, "head_dim", max_heads);
  else if (hidden % result.num_heads == 0)
    result.head_dim = hidden / result.num_heads;
  else
    json.fail("num_attention_heads", "must divide hidden_size where head_dim is not given");
  // What the KV cache's layout takes (kernels/kv_cache.hpp).
  if (result.head_dim % 8 != 0 || result.head_dim > 256)
    json.fail("head_dim", "must be a multiple of 8 up to 256, found " + std::to_string(result.head_dim));
  return result;
}

std::size_t read_num_experts(const json_object& json) {
  // Both names are in use: num_local_experts by Mixtral, num_experts by the others, and newer writers map one
  // to the other.
  const auto key = json.has("num_experts") ? "num_experts" : "num_local_experts";
  const auto found = json.at<std::int64_t>(key);
  if (json.value<std::int64_t>("num_local_experts", found) != found)
    json.fail("num_local_experts", "differs from num_experts");
  if (found < 0 || found > max_experts)
    json.fail(key, "must lie in 0.." + std::to_string(max_experts));
  return static_cast<std::size_t>(found);
}

moe_spec read_moe(const json_object& json, const char* intermediate_key) {
  moe_spec result;
  result.num_experts = read_num_experts(json);
  if (result.num_experts == 0)
    json.fail("num_experts", "must be at least 1");
  result.num_topk = positive(json, "num_experts_per_tok",
                             static_cast<std::int64_t>(std::min(result.num_experts, max_topk)));
  result.intermediate = positive(json, intermediate_key, max_dim);
  return result;
}

/// 0: none.
std::size_t read_window(const json_object& json) {
  return json.value<std::int64_t>("sliding_window", 0) == 0 ? 0 : positive(json, "sliding_window", max_dim);
}

/// Where all layers attend alike, layer_types only repeats it: transformers' cache and masks go by it.
void check_layer_types(const json_object& json, std::size_t window) {
  const std::string expected = window == 0 ? "full_attention" : "sliding_attention";
  for (const auto& type : json.value<std::vector<std::string>>("layer_types", {}))
    if (type != expected)
      json.fail("layer_types", "has '" + type + "', which is not supported where every layer has "
                                   + (window == 0 ? "no window" : "the same window"));
}

/// Which layers are routed: not in mlp_only_layers, and every decoder_sparse_step-th.
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

void describe_mixtral(const json_object& json, std::size_t num_layers, model_config& config) {
  config.naming = {"block_sparse_moe", "w1", "w3", "w2"};
  const auto norm = read_norm(json, 1e-5);
  auto attention = read_attention(json, config.hidden);
  attention.window = read_window(json);
  check_layer_types(json, attention.window);
  auto moe = read_moe(json, "intermediate_size");
  moe.normalize_topk = true;
  json.ignore("router_jitter_noise"); // training only
  config.final_norm = norm;
  config.layers.assign(num_layers, layer_spec{norm, attention, norm, moe});
}

void describe_olmoe(const json_object& json, std::size_t num_layers, model_config& config) {
  config.naming = llama_naming;
  const auto norm = read_norm(json, 1e-5);
  auto attention = read_attention(json, config.hidden);
  if (attention.head_dim * attention.num_heads != config.hidden)
    json.fail("head_dim", "must be hidden_size / num_attention_heads for this architecture");
  attention.qkv_bias = attention.output_bias = json.value("attention_bias", false);
  attention.qk_norm = qk_norm_kind::projection;
  attention.qk_norm_epsilon = norm.epsilon;
  if (json.value("clip_qkv", 0.0) != 0.0)
    json.fail("clip_qkv", "is not supported"); // no published checkpoint sets it
  if (read_window(json) != 0)
    json.fail("sliding_window", "is not supported for this architecture"); // eager and flash attention differ
  check_layer_types(json, 0);
  auto moe = read_moe(json, "intermediate_size");
  moe.normalize_topk = json.value("norm_topk_prob", false);
  config.final_norm = norm;
  config.layers.assign(num_layers, layer_spec{norm, attention, norm, moe});
}

/// What the two Qwen architectures share: dense layers between the routed ones.
void describe_qwen(const json_object& json, std::size_t num_layers, const attention_spec& attention,
                   const std::optional<shared_expert_spec>& shared, model_config& config) {
  config.naming = llama_naming;
  const auto norm = read_norm(json, 1e-6);
  auto sparse = read_sparse_layers(json, num_layers);
  if (read_num_experts(json) == 0)
    sparse.assign(num_layers, false);
  config.final_norm = norm;
  for (std::size_t i = 0; i < num_layers; ++i) {
    layer_spec layer{norm, attention, norm, dense_mlp_spec{}};
    if (sparse[i]) {
      auto moe = read_moe(json, "moe_intermediate_size");
      moe.normalize_topk = json.value("norm_topk_prob", false);
      moe.shared = shared;
      layer.mlp = moe;
    } else {
      layer.mlp = dense_mlp_spec{positive(json, "intermediate_size", max_dim)};
    }
    config.layers.push_back(layer);
  }
  // Absent layers' shapes are understood, if unused.
  for (const auto* key :
       {"intermediate_size", "moe_intermediate_size", "num_experts_per_tok", "norm_topk_prob"})
    json.ignore(key);
}

void describe_qwen2_moe(const json_object& json, std::size_t num_layers, model_config& config) {
  auto attention = read_attention(json, config.hidden);
  attention.qkv_bias = json.value("qkv_bias", true);
  std::optional<shared_expert_spec> shared;
  if (json.at<std::int64_t>("shared_expert_intermediate_size") != 0)
    shared = {positive(json, "shared_expert_intermediate_size", max_dim), true};
  const auto use_window = json.value("use_sliding_window", false);
  const auto window = use_window ? read_window(json) : 0;
  const auto max_window_layers = json.value<std::int64_t>("max_window_layers", 28);
  const auto types = json.find<std::vector<std::string>>("layer_types");
  if (types && types->size() != num_layers)
    json.fail("layer_types", "must have one entry per layer");
  describe_qwen(json, num_layers, attention, shared, config);
  for (std::size_t i = 0; i < num_layers; ++i) {
    // Without layer_types, transformers slides every other layer below max_window_layers (Qwen2MoeConfig).
    auto slides = use_window && i % 2 == 0 && static_cast<std::int64_t>(i) < max_window_layers;
    if (types) {
      slides = (*types)[i] == "sliding_attention";
      if (!slides && (*types)[i] != "full_attention")
        json.fail("layer_types", "has unsupported type '" + (*types)[i] + "'");
      if (slides && window == 0)
        json.fail("layer_types",
                  "names sliding_attention, but use_sliding_window and sliding_window are not set");
    }
    config.layers[i].attention.window = slides ? window : 0;
  }
  json.ignore("sliding_window");
}

void describe_qwen3_moe(const json_object& json, std::size_t num_layers, model_config& config) {
  auto attention = read_attention(json, config.hidden);
  attention.qkv_bias = attention.output_bias = json.value("attention_bias", false);
  attention.qk_norm = qk_norm_kind::per_head;
  attention.qk_norm_epsilon = read_norm(json, 1e-6).epsilon;
  // transformers slides every layer or none and does not read max_window_layers (Qwen3MoeConfig).
  attention.window = json.value("use_sliding_window", false) ? read_window(json) : 0;
  check_layer_types(json, attention.window);
  json.ignore("sliding_window");
  json.ignore("max_window_layers");
  describe_qwen(json, num_layers, attention, std::nullopt, config);
}

constexpr std::array architectures{
    architecture{"MixtralForCausalLM", "mixtral", 1e6, describe_mixtral},
    architecture{"OlmoeForCausalLM", "olmoe", 1e4, describe_olmoe},
    architecture{"Qwen2MoeForCausalLM", "qwen2_moe", 1e4, describe_qwen2_moe},
    architecture{"Qwen3MoeForCausalLM", "qwen3_moe", 1e4, describe_qwen3_moe},
};

} // namespace

const architecture* find_architecture(const std::string& name) {
  const auto i = std::ranges::find(architectures, name, &architecture::name);
  return i == architectures.end() ? nullptr : &*i;
}

const architecture& find_architecture_of_type(const json_object& json) {
  if (!json.has("model_type"))
    json.fail("architectures", "is missing");
  const auto type = json.at<std::string>("model_type");
  const auto i = std::ranges::find(architectures, type, &architecture::model_type);
  if (i == architectures.end())
    json.fail("model_type",
              "is '" + type + "', which is not supported (supported: " + supported_architectures() + ")");
  return *i;
}

std::string supported_architectures() {
  std::string names;
  for (const auto& a : architectures)
    names += (names.empty() ? "" : ", ") + std::string{a.name};
  return names;
}

std::size_t positive(const json_object& json, const std::string& key, std::int64_t max) {
  const auto value = json.at<std::int64_t>(key);
  if (value < 1 || value > max)
    json.fail(key, "must lie in 1.." + std::to_string(max) + ", found " + std::to_string(value));
  return static_cast<std::size_t>(value);
}

} // namespace troupe::model
