// Reads the attention side's weights out of a checkpoint.
#include "kernels/model/dense_model.hpp"
#include "kernels/model/weights.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace troupe::model {

namespace {

// A million tokens of heads of 128 take half of it.
constexpr std::size_t max_rope_bytes = std::size_t{1} << 30;

} // namespace

class dense_model::loader {
 public:
  loader(const checkpoint& weights, const load_progress& progress, dense_model& model)
      : weights_(weights), progress_(progress), model_(model) {
    for (const auto& required : dense_tensors(model.config_))
      total_ += weights.at(required.name).num_bytes;
  }

  void run(std::size_t max_positions) {
    const auto& config = model_.config_;
    model_.rope_ = kernels::rope_table(config.rope, max_positions);
    load_embeddings();
    for (std::size_t i = 0; i < config.num_layers(); ++i)
      model_.layers_.push_back(load_layer(i));
    model_.final_norm_ = floats("model.norm.weight");
    model_.lm_head_ = matrix({config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight"});
  }

 private:
  const tensor_ref& read(const std::string& name) {
    const auto& tensor = weights_.at(name);
    loaded_ += tensor.num_bytes;
    return tensor;
  }

  /// The pages have been copied: give them back and say how far we are.
  void done(const tensor_ref& tensor) {
    release_pages({tensor.data, tensor.num_bytes});
    if (progress_)
      progress_(std::min(loaded_, total_), total_);
  }

  std::vector<float> floats(const std::string& name) {
    const auto& tensor = read(name);
    auto result = to_floats(tensor);
    model_.num_bytes_ += result.size() * sizeof(float);
    done(tensor);
    return result;
  }

  kernels::packed_matrix matrix(const std::vector<std::string>& names) {
    std::vector<tensor_ref> parts;
    for (const auto& name : names)
      parts.push_back(read(name));
    auto result = pack_rows(model_.type_, parts);
    model_.num_bytes_ += result.bytes().size();
    for (const auto& part : parts)
      done(part);
    return result;
  }

  kernels::expert_weights mlp(const std::string& prefix) {
    const auto& gate = read(prefix + "gate_proj.weight");
    const auto& up = read(prefix + "up_proj.weight");
    const auto& down = read(prefix + "down_proj.weight");
    auto result = pack_mlp(model_.type_, model_.config_.activation, gate, up, down);
    model_.num_bytes_ += result.gate_up.bytes().size() + result.down.bytes().size();
    done(down);
    return result;
  }

  /// Rows are looked up, not multiplied, so they stay as stored, except that a bf16 model holds bf16 values
  /// only.
  void load_embeddings() {
    const auto& tensor = read("model.embed_tokens.weight");
    const auto rows = tensor.shape.front();
    const auto cols = tensor.shape.back();
    const auto bf16 = model_.type_ == kernels::dtype::bf16;
    const auto type = bf16 ? kernels::dtype::bf16 : to_dtype(tensor.type);
    model_.embeddings_ = kernels::tensor(type, rows, cols);
    auto view = model_.embeddings_.view();
    const auto row_bytes = cols * element_bytes(tensor.type);
    for (std::size_t r = 0; r < rows; ++r) {
      const auto* from = tensor.data + r * row_bytes;
      if (type == to_dtype(tensor.type)) {
        std::memcpy(view.row(r), from, row_bytes);
        continue;
      }
      const auto values = to_floats(tensor_ref{tensor.type, {}, from, row_bytes});
      std::transform(values.begin(), values.end(), view.row_as<kernels::bfloat16>(r), kernels::to_bfloat16);
    }
    model_.num_bytes_ += rows * kernels::bytes_of(type, view.row_stride);
    done(tensor);
  }

  layer_weights load_layer(std::size_t index) {
    const auto& spec = model_.config_.layers[index];
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
    const auto moe_prefix = prefix + model_.config_.naming.moe + ".";
    layer.router = matrix({moe_prefix + "gate.weight"});
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

  const checkpoint& weights_;
  const load_progress& progress_;
  dense_model& model_;
  std::size_t loaded_ = 0;
  std::size_t total_ = 0;
};

dense_model dense_model::load(const checkpoint& weights, const model_config& config,
                              const load_options& options, const load_progress& progress) {
  if (options.type != kernels::dtype::f32 && options.type != kernels::dtype::bf16)
    throw model_error(std::string{"a model computes in f32 or bf16, not "} + kernels::name_of(options.type));
  dense_model model;
  model.config_ = config;
  model.type_ = options.type;
  const auto wanted = options.max_positions == 0 ? config.max_context : options.max_positions;
  const auto positions = std::min(wanted, config.max_context);
  if (const auto table_bytes = positions * config.rope.rotary_dim * sizeof(float);
      table_bytes > max_rope_bytes)
    throw model_error("a context of " + std::to_string(positions) + " tokens takes "
                      + std::to_string(table_bytes) + " bytes of position tables, at most "
                      + std::to_string(max_rope_bytes) + " are allowed: choose a shorter maximum");
  loader(weights, progress, model).run(positions);
  return model;
}

kernels::kv_cache_config dense_model::kv_config(std::size_t block_tokens) const {
  kernels::kv_cache_config result;
  result.block_tokens = block_tokens;
  for (const auto& layer : config_.layers) {
    const kernels::kv_layer_group shape{0, layer.attention.num_kv_heads, layer.attention.head_dim, type_};
    auto& groups = result.groups;
    if (groups.empty() || groups.back().kv_heads != shape.kv_heads
        || groups.back().head_dim != shape.head_dim)
      groups.push_back(shape);
    ++groups.back().layers;
  }
  return result;
}

} // namespace troupe::model
