// Takes the attention side's weights from their source.
#include "kernels/model/dense_model.hpp"

#include <utility>

namespace troupe::model {

class dense_model::loader {
 public:
  loader(const load_progress& progress, dense_model& model)
      : weights_(*model.weights_), progress_(progress), model_(model) {
    for (const auto& required : dense_tensors(model.config()))
      total_ += num_values(required.shape);
  }

  void run(std::size_t max_positions) {
    const auto& config = model_.config();
    model_.rope_ = kernels::rope_table(config.rope, max_positions);
    model_.embeddings_ = weights_.embeddings();
    done(model_.embeddings_.num_bytes(), config.vocab_size * config.hidden);
    for (std::size_t i = 0; i < config.num_layers(); ++i)
      model_.layers_.push_back(load_layer(i));
    model_.final_norm_ = floats("model.norm.weight");
    model_.lm_head_ = matrix({config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight"});
  }

 private:
  static std::size_t num_values(const std::vector<std::size_t>& shape) {
    std::size_t count = 1;
    for (const auto dim : shape)
      count *= dim;
    return count;
  }

  /// Progress counts values; it is told in bytes of what the weights take in memory so far and, in
  /// proportion, will.
  void done(std::size_t num_bytes, std::size_t values) {
    model_.num_bytes_ += num_bytes;
    values_ += values;
    if (progress_)
      progress_(model_.num_bytes_,
                values_ >= total_
                    ? model_.num_bytes_
                    : static_cast<std::size_t>(static_cast<double>(model_.num_bytes_)
                                               * static_cast<double>(total_) / static_cast<double>(values_)));
  }

  std::vector<float> floats(const std::string& name) {
    auto result = weights_.floats(name);
    done(result.size() * sizeof(float), result.size());
    return result;
  }

  kernels::packed_matrix matrix(const std::vector<std::string>& names, bool plain = false) {
    auto result = weights_.matrix(names, plain);
    done(result.bytes().size(), result.outputs() * result.inputs());
    return result;
  }

  kernels::expert_weights mlp(const std::string& prefix) {
    auto result = weights_.mlp(prefix);
    done(result.gate_up.bytes().size() + result.down.bytes().size(), 3 * result.hidden() * result.ffn());
    return result;
  }

  layer_weights load_layer(std::size_t index) {
    const auto& spec = model_.config().layers[index];
    const auto prefix = "model.layers." + std::to_string(index) + ".";
    layer_weights layer;
    layer.attention_norm = floats(prefix + "input_layernorm.weight");
    load_attention(spec.attention, prefix + "self_attn.", layer);
    layer.mlp_norm = floats(prefix + "post_attention_layernorm.weight");
    const auto* moe = spec.moe();
    if (moe == nullptr) {
      layer.mlp = mlp(prefix + "mlp.");
      return layer;
    }
    const auto moe_prefix = prefix + model_.config().naming.moe + ".";
    layer.router = matrix({moe_prefix + "gate.weight"}, true);
    if (moe->shared) {
      layer.mlp = mlp(moe_prefix + "shared_expert.");
      if (moe->shared->sigmoid_gate)
        layer.shared_gate = floats(moe_prefix + "shared_expert_gate.weight");
    }
    return layer;
  }

  void load_attention(const attention_spec& spec, const std::string& prefix, layer_weights& layer) {
    layer.qkv = matrix({prefix + "q_proj.weight", prefix + "k_proj.weight", prefix + "v_proj.weight"});
    if (spec.qkv_bias)
      for (const auto* name : {"q_proj.bias", "k_proj.bias", "v_proj.bias"}) {
        const auto part = floats(prefix + name);
        layer.qkv_bias.insert(layer.qkv_bias.end(), part.begin(), part.end());
      }
    if (spec.qk_norm != qk_norm_kind::none) {
      layer.q_norm = floats(prefix + "q_norm.weight");
      layer.k_norm = floats(prefix + "k_norm.weight");
    }
    layer.output = matrix({prefix + "o_proj.weight"});
    if (spec.output_bias)
      layer.output_bias = floats(prefix + "o_proj.bias");
  }

  const cpu_weights& weights_;
  const load_progress& progress_;
  dense_model& model_;
  std::size_t values_ = 0;
  std::size_t total_ = 0;
};

dense_model dense_model::load(std::shared_ptr<const cpu_weights> weights, const load_options& options,
                              const load_progress& progress) {
  dense_model model;
  model.weights_ = std::move(weights);
  model.kv_type_ = options.kv_type.value_or(model.type());
  loader(progress, model).run(positions_of(model.config(), options));
  return model;
}

kernels::kv_cache_config dense_model::kv_config(std::size_t block_tokens) const {
  kernels::kv_cache_config result;
  result.block_tokens = block_tokens;
  for (const auto& layer : config().layers) {
    const kernels::kv_layer_group shape{0, layer.attention.num_kv_heads, layer.attention.head_dim, kv_type_};
    auto& groups = result.groups;
    if (groups.empty() || groups.back().kv_heads != shape.kv_heads
        || groups.back().head_dim != shape.head_dim)
      groups.push_back(shape);
    ++groups.back().layers;
  }
  return result;
}

} // namespace troupe::model
