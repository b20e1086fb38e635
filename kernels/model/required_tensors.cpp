// Which tensors a config asks for, and whether a checkpoint has exactly those.
#include "kernels/model/checkpoint.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace troupe::model {

namespace {

std::string layer_prefix(std::size_t layer) {
  return "model.layers." + std::to_string(layer) + ".";
}

void add_attention(const attention_spec& spec, std::size_t hidden, const std::string& prefix,
                   std::vector<tensor_requirement>& out) {
  const auto q = spec.num_heads * spec.head_dim;
  const auto kv = spec.num_kv_heads * spec.head_dim;
  for (const auto& [name, width] :
       {std::pair{"q_proj", q}, std::pair{"k_proj", kv}, std::pair{"v_proj", kv}}) {
    out.push_back({prefix + name + ".weight", {width, hidden}});
    if (spec.qkv_bias)
      out.push_back({prefix + name + ".bias", {width}});
  }
  out.push_back({prefix + "o_proj.weight", {hidden, q}});
  if (spec.output_bias)
    out.push_back({prefix + "o_proj.bias", {hidden}});
  if (spec.qk_norm == qk_norm_kind::per_head) {
    out.push_back({prefix + "q_norm.weight", {spec.head_dim}});
    out.push_back({prefix + "k_norm.weight", {spec.head_dim}});
  } else if (spec.qk_norm == qk_norm_kind::projection) {
    out.push_back({prefix + "q_norm.weight", {q}});
    out.push_back({prefix + "k_norm.weight", {kv}});
  }
}

void add_mlp(std::size_t hidden, std::size_t intermediate, const std::string& prefix,
             std::vector<tensor_requirement>& out) {
  out.push_back({prefix + "gate_proj.weight", {intermediate, hidden}});
  out.push_back({prefix + "up_proj.weight", {intermediate, hidden}});
  out.push_back({prefix + "down_proj.weight", {hidden, intermediate}});
}

std::string shape_text(std::span<const std::size_t> shape) {
  std::string result;
  for (const auto dim : shape)
    result += (result.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + result + "]";
}

/// Tensors that some writers store and nobody needs.
bool is_redundant(const std::string& name, const model_config& config) {
  return name.ends_with(".rotary_emb.inv_freq") || (config.tie_word_embeddings && name == "lm_head.weight");
}

} // namespace

expert_tensor_names expert_tensors(const model_config& config, std::size_t layer, std::size_t expert) {
  const auto& naming = config.naming;
  const auto prefix = layer_prefix(layer) + naming.moe + ".experts." + std::to_string(expert) + ".";
  return {prefix + naming.expert_gate + ".weight", prefix + naming.expert_up + ".weight",
          prefix + naming.expert_down + ".weight"};
}

std::vector<tensor_requirement> dense_tensors(const model_config& config) {
  std::vector<tensor_requirement> result;
  const auto hidden = config.hidden;
  result.push_back({"model.embed_tokens.weight", {config.vocab_size, hidden}});
  result.push_back({"model.norm.weight", {hidden}});
  if (!config.tie_word_embeddings)
    result.push_back({"lm_head.weight", {config.vocab_size, hidden}});
  for (std::size_t i = 0; i < config.num_layers(); ++i) {
    const auto& layer = config.layers[i];
    const auto prefix = layer_prefix(i);
    result.push_back({prefix + "input_layernorm.weight", {hidden}});
    result.push_back({prefix + "post_attention_layernorm.weight", {hidden}});
    add_attention(layer.attention, hidden, prefix + "self_attn.", result);
    if (const auto* dense = std::get_if<dense_mlp_spec>(&layer.mlp))
      add_mlp(hidden, dense->intermediate, prefix + "mlp.", result);
    if (const auto* moe = layer.moe()) {
      const auto moe_prefix = prefix + config.naming.moe + ".";
      result.push_back({moe_prefix + "gate.weight", {moe->num_experts, hidden}});
      if (moe->shared) {
        add_mlp(hidden, moe->shared->intermediate, moe_prefix + "shared_expert.", result);
        if (moe->shared->sigmoid_gate)
          result.push_back({moe_prefix + "shared_expert_gate.weight", {1, hidden}});
      }
    }
  }
  return result;
}

std::vector<tensor_requirement> expert_layer_tensors(const model_config& config, std::size_t layer) {
  std::vector<tensor_requirement> result;
  const auto* moe = config.layers.at(layer).moe();
  for (std::size_t e = 0; moe != nullptr && e < moe->num_experts; ++e) {
    auto names = expert_tensors(config, layer, e);
    result.push_back({std::move(names.gate), {moe->intermediate, config.hidden}});
    result.push_back({std::move(names.up), {moe->intermediate, config.hidden}});
    result.push_back({std::move(names.down), {config.hidden, moe->intermediate}});
  }
  return result;
}

void checkpoint::validate(const model_config& config) const {
  constexpr std::size_t shown = 5;
  std::size_t num_problems = 0;
  std::string text;
  const auto problem = [&](const std::string& what) {
    if (num_problems++ < shown)
      text += "\n  " + what;
  };
  std::set<std::string> known;
  const auto check = [&](const tensor_requirement& required) {
    known.insert(required.name);
    const auto* found = find(required.name);
    if (found == nullptr)
      problem("tensor '" + required.name + "' is missing, expected shape " + shape_text(required.shape));
    else if (!std::equal(found->shape.begin(), found->shape.end(), required.shape.begin(),
                         required.shape.end()))
      problem("tensor '" + required.name + "' has shape " + shape_text(found->shape) + ", expected "
              + shape_text(required.shape));
  };
  for (const auto& required : dense_tensors(config))
    check(required);
  for (std::size_t i = 0; i < config.num_layers(); ++i)
    for (const auto& required : expert_layer_tensors(config, i))
      check(required);
  for (const auto& s : shards_)
    for (const auto& entry : s->entries)
      if (!known.contains(entry.name) && !is_redundant(entry.name, config))
        problem("tensor '" + entry.name + "' is not part of " + config.architecture
                + " as config.json describes it");
  if (num_problems > shown)
    text += "\n  and " + std::to_string(num_problems - shown) + " more";
  if (num_problems > 0)
    throw model_error(folder_.string() + ": " + std::to_string(num_problems)
                      + (num_problems == 1 ? " problem" : " problems") + " with the weights:" + text);
}

} // namespace troupe::model
