// Which tensors a config asks for, and whether a checkpoint has them.
#include "kernels/model/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>
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

/// What some writers store and is of no use to anybody: not worth a line in the log.
bool is_redundant(const std::string& name, const model_config& config) {
  return name.ends_with(".rotary_emb.inv_freq") || (config.tie_word_embeddings && name == "lm_head.weight");
}

/// Where transformers 5 has the routed block of every architecture, below a layer.
constexpr const char* block_of_fused = "mlp";

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

/// One `match`: problems as they are found, and which tensors are needed.
class checkpoint::matching {
 public:
  matching(checkpoint& weights, const model_config& config) : weights_(weights), config_(config) {}

  void run() {
    for (std::size_t i = 0; i < config_.num_layers(); ++i)
      if (const auto* moe = config_.layers[i].moe())
        split_experts(i, *moe);
    for (const auto& required : dense_tensors(config_))
      check(required);
    for (std::size_t i = 0; i < config_.num_layers(); ++i)
      if (!fused_[i])
        for (const auto& required : expert_layer_tensors(config_, i))
          check(required);
    throw_problems();
    find_unused();
  }

 private:
  static constexpr std::size_t shown = 5; // problems that a message names

  void problem(const std::string& what) {
    if (num_problems_++ < shown)
      problems_ += "\n  " + what;
  }

  /// @returns the tensor, or null where it cannot be used
  const tensor_ref* check(const tensor_requirement& required) {
    needed_.insert(required.name);
    const auto* found = weights_.find(required.name);
    if (found == nullptr) {
      const auto listed = weights_.listed_only_.find(required.name);
      problem("tensor '" + required.name + "' is missing, expected shape " + shape_text(required.shape)
              + (listed == weights_.listed_only_.end()
                     ? ""
                     : " (the index says it is in " + listed->second + ")"));
      return nullptr;
    }
    if (!std::ranges::equal(found->shape, required.shape)) {
      problem("tensor '" + required.name + "' has shape " + shape_text(found->shape) + ", expected "
              + shape_text(required.shape));
      return nullptr;
    }
    if (found->type == storage_dtype::other) {
      problem("tensor '" + required.name + "' has type " + type_name(required.name)
              + ", supported are F32, F16 and BF16");
      return nullptr;
    }
    return found;
  }

  std::string type_name(const std::string& name) const {
    for (const auto& s : weights_.shards_)
      for (const auto& entry : s->entries)
        if (entry.name == name)
          return entry.type_name;
    return "?";
  }

  /// Where the layer's experts are fused, gives each expert's matrices a name.
  void split_experts(std::size_t layer, const moe_spec& moe) {
    if (weights_.find(expert_tensors(config_, layer, 0).gate) != nullptr)
      return;
    for (const auto& block : {std::string{block_of_fused}, config_.naming.moe}) {
      const auto prefix = layer_prefix(layer) + block + ".experts.";
      if (weights_.find(prefix + "gate_up_proj") == nullptr && weights_.find(prefix + "down_proj") == nullptr)
        continue;
      fused_[layer] = true;
      const auto* gate_up =
          check({prefix + "gate_up_proj", {moe.num_experts, 2 * moe.intermediate, config_.hidden}});
      const auto* down = check({prefix + "down_proj", {moe.num_experts, config_.hidden, moe.intermediate}});
      if (gate_up != nullptr && down != nullptr)
        name_parts(layer, moe, *gate_up, *down);
      // The router lies beside them, under the same prefix.
      const auto router = layer_prefix(layer) + block + ".gate.weight";
      const auto wanted = layer_prefix(layer) + config_.naming.moe + ".gate.weight";
      if (const auto* found = weights_.find(router); found != nullptr && router != wanted) {
        needed_.insert(router);
        weights_.aliases_.emplace(wanted, *found);
      }
      return;
    }
  }

  void name_parts(std::size_t layer, const moe_spec& moe, const tensor_ref& gate_up, const tensor_ref& down) {
    const auto& rows = weights_.alias_shapes_.emplace_back(std::array{moe.intermediate, config_.hidden});
    const auto& columns = weights_.alias_shapes_.emplace_back(std::array{config_.hidden, moe.intermediate});
    const auto gate_bytes = gate_up.num_bytes / moe.num_experts / 2;
    const auto down_bytes = down.num_bytes / moe.num_experts;
    for (std::size_t e = 0; e < moe.num_experts; ++e) {
      auto names = expert_tensors(config_, layer, e);
      const auto* gate = gate_up.data + 2 * e * gate_bytes;
      auto& aliases = weights_.aliases_;
      aliases.emplace(std::move(names.gate), tensor_ref{gate_up.type, rows, gate, gate_bytes});
      aliases.emplace(std::move(names.up), tensor_ref{gate_up.type, rows, gate + gate_bytes, gate_bytes});
      aliases.emplace(std::move(names.down),
                      tensor_ref{down.type, columns, down.data + e * down_bytes, down_bytes});
    }
  }

  void throw_problems() const {
    if (num_problems_ == 0)
      return;
    throw model_error(
        weights_.folder_.string() + ": " + std::to_string(num_problems_)
        + (num_problems_ == 1 ? " problem" : " problems") + " with the weights:" + problems_
        + (num_problems_ > shown ? "\n  and " + std::to_string(num_problems_ - shown) + " more" : ""));
  }

  void find_unused() {
    const auto is_unused = [&](const std::string& name) {
      return !needed_.contains(name) && !is_redundant(name, config_);
    };
    for (const auto& s : weights_.shards_)
      for (const auto& entry : s->entries)
        if (is_unused(entry.name))
          weights_.unused_.push_back(entry.name);
    for (const auto& [name, file] : weights_.listed_only_)
      if (is_unused(name))
        weights_.unused_.push_back(name + " (listed, and not in " + file + ")");
  }

  checkpoint& weights_;
  const model_config& config_;
  std::vector<bool> fused_ = std::vector<bool>(config_.num_layers());
  std::unordered_set<std::string> needed_;
  std::size_t num_problems_ = 0;
  std::string problems_;
};

void checkpoint::match(const model_config& config) {
  aliases_.clear();
  alias_shapes_.clear();
  unused_.clear();
  matching(*this, config).run();
}

} // namespace troupe::model
