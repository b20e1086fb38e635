#include "kernels/model/cuda/attention_weights.hpp"

#include "kernels/model/weights.hpp"
#include "kernels/quantize.hpp"
#include "kernels/rope.hpp"

#include <array>
#include <string>
#include <utility>

namespace troupe::model {

namespace {

constexpr const char* embeddings_name = "model.embed_tokens.weight";

class loader {
 public:
  loader(const kernels::cuda::stream& on, const tensor_source& tensors, kernels::isa set,
         const load_progress& progress)
      : on_(on), tensors_(tensors), set_(set), progress_(progress) {
    for (const auto& required : dense_tensors(tensors.config())) {
      std::size_t values = 1;
      for (const auto dim : required.shape)
        values *= dim;
      total_ += values;
    }
  }

  attention_weights run(std::size_t positions) {
    const auto& config = tensors_.config();
    add_rope(positions);
    add_embeddings();
    for (std::size_t i = 0; i < config.num_layers(); ++i)
      result_.layers.push_back(load_layer(i));
    result_.final_norm = floats("model.norm.weight");
    const bool is_shared = config.tie_word_embeddings && tensors_.quant().dense == dense_quant::none;
    if (!is_shared)
      result_.own_lm_head = matrix({config.tie_word_embeddings ? embeddings_name : "lm_head.weight"});
    return std::move(result_);
  }

 private:
  using names = std::vector<std::string>;

  /// Progress counts values; it is told in bytes that the weights take so far and, in proportion, will.
  void done(std::size_t num_bytes, std::size_t values) {
    result_.num_bytes += num_bytes;
    values_ += values;
    if (progress_)
      progress_(result_.num_bytes,
                values_ >= total_
                    ? result_.num_bytes
                    : static_cast<std::size_t>(static_cast<double>(result_.num_bytes)
                                               * static_cast<double>(total_) / static_cast<double>(values_)));
  }

  void add_rope(std::size_t positions) {
    const kernels::rope_table table(tensors_.config().rope, positions);
    const auto count = positions * table.rotary_dim() / 2;
    result_.positions = positions;
    result_.cosines = {on_, std::span(table.cos_at(0), count)};
    result_.sines = {on_, std::span(table.sin_at(0), count)};
    result_.num_bytes += result_.cosines.num_bytes() + result_.sines.num_bytes();
  }

  void add_embeddings() {
    auto& out = result_.embeddings;
    if (tensors_.quant().dense == dense_quant::none) {
      out.as_matrix = matrix({embeddings_name}, device_storage{});
      return;
    }
    const auto& tensor = tensors_.read(embeddings_name);
    const auto vocab = tensor.shape.front();
    const auto hidden = tensor.shape.back();
    const auto row_bytes = hidden * element_bytes(tensor.type);
    std::vector<std::int8_t> integers(vocab * hidden);
    std::vector<float> scales(vocab);
    for (std::size_t r = 0; r < vocab; ++r) {
      const auto row = to_floats({tensor.type, {}, tensor.data + r * row_bytes, row_bytes});
      scales[r] = kernels::quantize_int8(row, integers.data() + r * hidden);
    }
    release_pages({tensor.data, tensor.num_bytes});
    out.type = kernels::dtype::int8;
    out.integers = {on_, std::span<const std::int8_t>(integers)};
    out.row_scales = {on_, std::span<const float>(scales)};
    done(out.integers.num_bytes() + out.row_scales.num_bytes(), vocab * hidden);
  }

  device_vector<float> floats(const std::string& name) {
    const auto values = tensors_.floats(name);
    device_vector<float> result{on_, std::span<const float>(values)};
    done(result.num_bytes(), values.size());
    return result;
  }

  device_matrices matrix(const names& of, device_storage storage, std::vector<float> bias = {}) {
    auto image = pack_matrix(tensors_, of, storage, set_);
    image.bias = std::move(bias);
    const auto values = image.shape.outputs * image.shape.inputs + image.bias.size();
    device_matrices result{on_, {&image, 1}};
    done(result.num_bytes(), values);
    return result;
  }

  device_matrices matrix(const names& of, std::vector<float> bias = {}) {
    return matrix(of, dense_storage(tensors_.quant()), std::move(bias));
  }

  device_matrices mlp(const std::string& prefix) {
    std::array<matrix_image, 3> images;
    std::size_t values = 0;
    for (std::size_t i = 0; const auto* name : {"gate_proj.weight", "up_proj.weight", "down_proj.weight"}) {
      const auto full_name = prefix + name;
      images[i] = pack_matrix(tensors_, {&full_name, 1}, dense_storage(tensors_.quant()), set_);
      values += images[i].shape.outputs * images[i].shape.inputs;
      ++i;
    }
    device_matrices result{on_, images};
    done(result.num_bytes(), values);
    return result;
  }

  attention_layer_weights load_layer(std::size_t index) {
    const auto& config = tensors_.config();
    const auto& spec = config.layers[index];
    const auto prefix = "model.layers." + std::to_string(index) + ".";
    attention_layer_weights layer;
    layer.attention_norm = floats(prefix + "input_layernorm.weight");
    load_attention(spec.attention, prefix + "self_attn.", layer);
    layer.mlp_norm = floats(prefix + "post_attention_layernorm.weight");
    const auto* moe = spec.moe();
    if (moe == nullptr) {
      layer.mlp = mlp(prefix + "mlp.");
      return layer;
    }
    const auto moe_prefix = prefix + config.naming.moe + ".";
    layer.router = matrix({moe_prefix + "gate.weight"}, device_storage{});
    if (moe->shared) {
      layer.mlp = mlp(moe_prefix + "shared_expert.");
      if (moe->shared->sigmoid_gate)
        layer.shared_gate = floats(moe_prefix + "shared_expert_gate.weight");
    }
    return layer;
  }

  void load_attention(const attention_spec& spec, const std::string& prefix, attention_layer_weights& layer) {
    std::vector<float> qkv_bias;
    if (spec.qkv_bias)
      for (const auto* name : {"q_proj.bias", "k_proj.bias", "v_proj.bias"}) {
        const auto part = tensors_.floats(prefix + name);
        qkv_bias.insert(qkv_bias.end(), part.begin(), part.end());
      }
    layer.qkv = matrix({prefix + "q_proj.weight", prefix + "k_proj.weight", prefix + "v_proj.weight"},
                       std::move(qkv_bias));
    if (spec.qk_norm != qk_norm_kind::none) {
      layer.q_norm = floats(prefix + "q_norm.weight");
      layer.k_norm = floats(prefix + "k_norm.weight");
    }
    layer.output = matrix({prefix + "o_proj.weight"},
                          spec.output_bias ? tensors_.floats(prefix + "o_proj.bias") : std::vector<float>{});
  }

  const kernels::cuda::stream& on_;
  const tensor_source& tensors_;
  kernels::isa set_;
  const load_progress& progress_;
  attention_weights result_;
  std::size_t values_ = 0;
  std::size_t total_ = 0;
};

} // namespace

attention_weights load_attention_weights(const kernels::cuda::stream& on, const tensor_source& tensors,
                                         kernels::isa set, const load_options& options,
                                         const load_progress& progress) {
  return loader(on, tensors, set, progress).run(positions_of(tensors.config(), options));
}

} // namespace troupe::model
