#include "kernels/model/cuda/attention_weights.hpp"

#include "kernels/model/load_counter.hpp"
#include "kernels/model/weights.hpp"
#include "kernels/quantize.hpp"
#include "kernels/query_factors.hpp"
#include "kernels/rope.hpp"

#include <utility>
#include <vector>

namespace troupe::model {

namespace {

class loader {
 public:
  loader(const kernels::cuda::stream& on, const tensor_source& tensors, kernels::isa set,
         const load_progress& progress)
      : on_(on), tensors_(tensors), set_(set), loaded_(tensors.config(), progress) {}

  attention_weights run(std::size_t positions) {
    const auto& config = tensors_.config();
    add_rope(positions);
    add_embeddings();
    result_.position_embeddings = floats(config.position_embeddings);
    for (const auto& layer : config.layers) {
      auto& operations = result_.layers.emplace_back();
      for (const auto& op : layer.operations)
        operations.push_back(
            std::visit([this](const auto& described) { return cuda_operation{load(described)}; }, op));
    }
    result_.final_norm = load(config.final_norm);
    const bool is_shared =
        config.tie_word_embeddings && !config.lm_head_bias && tensors_.quant().dense == dense_quant::none;
    if (!is_shared)
      result_.own_lm_head = matrix(config.output_head());
    result_.num_bytes += loaded_.num_bytes();
    return std::move(result_);
  }

 private:
  void add_rope(std::size_t positions) {
    result_.positions = positions;
    if (tensors_.config().rope.rotary_dim == 0)
      return;
    const kernels::rope_table table(tensors_.config().rope_for(positions), positions);
    const auto count = positions * table.rotary_dim() / 2;
    result_.cosines = {on_, std::span(table.cos_at(0), count)};
    result_.sines = {on_, std::span(table.sin_at(0), count)};
    result_.num_bytes += result_.cosines.num_bytes() + result_.sines.num_bytes();
  }

  void add_embeddings() {
    auto& out = result_.embeddings;
    if (tensors_.quant().dense == dense_quant::none) {
      out.as_matrix = matrix({.parts = {tensors_.config().embeddings}, .storage = matrix_storage::plain});
      return;
    }
    const auto& tensor = tensors_.read(tensors_.config().embeddings.name);
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
    loaded_.add(out.integers.num_bytes() + out.row_scales.num_bytes(), vocab * hidden);
  }

  device_vector<float> floats(const tensor_requirement& tensor) {
    const auto values = tensors_.floats(tensor.name);
    device_vector<float> result{on_, std::span<const float>(values)};
    loaded_.add(result.num_bytes(), values.size());
    return result;
  }

  device_matrices matrix(const matrix_ref& ref) {
    auto image = pack_matrix(tensors_, ref, set_);
    const auto values = image.shape.outputs * image.shape.inputs + image.bias.size();
    device_matrices result{on_, {&image, 1}};
    loaded_.add(result.num_bytes(), values);
    return result;
  }

  device_vector<float> floats(const std::optional<tensor_requirement>& tensor) {
    return tensor ? floats(*tensor) : device_vector<float>{};
  }

  cuda_norm load(const norm_op& op) { return {op, floats(op.weight), floats(op.bias)}; }

  cuda_project load(const project_op& op) { return {op, matrix(op.matrix)}; }

  cuda_attend load(const attend_op& op) {
    cuda_attend result{op, {}, {}, nullptr, floats(op.sinks)};
    if (op.norm) {
      result.query_norm = floats(op.norm->query);
      result.key_norm = floats(op.norm->key);
    }
    if (op.temperature)
      result.query_factors = query_factors(*op.temperature);
    return result;
  }

  const float* query_factors(const query_temperature& of) {
    auto& table = result_.query_factors[{of.scale, of.floor}];
    if (table.data() == nullptr) {
      const auto factors = kernels::query_factors(of.scale, of.floor, result_.positions);
      table = {on_, std::span(factors)};
      result_.num_bytes += table.num_bytes();
    }
    return table.data();
  }

  cuda_route load(const route_op& op) {
    cuda_route result{op, {}, {}, {}, floats(op.choice_bias)};
    const auto& weight = op.matrix.parts.front();
    if (op.matrix.storage == matrix_storage::exact)
      result.exact_matrix = floats(weight);
    else
      result.matrix = matrix({.parts = {weight}, .storage = op.matrix.storage});
    if (!op.matrix.biases.empty())
      result.bias = floats(op.matrix.biases.front());
    return result;
  }

  combine_op load(const combine_op& op) { return op; }

  device_matrices matrices(const std::vector<matrix_ref>& refs) {
    std::vector<matrix_image> images;
    std::size_t values = 0;
    for (const auto& ref : refs) {
      images.push_back(pack_matrix(tensors_, ref, set_));
      values += ref.outputs() * ref.inputs();
    }
    device_matrices result{on_, images};
    loaded_.add(result.num_bytes(), values);
    return result;
  }

  cuda_attend_latent load(const attend_latent_op& op) {
    return {op, floats(op.norm), matrices(op.key_heads), matrices(op.value_heads)};
  }

  cuda_feed_forward load(const feed_forward_op& op) {
    const auto images = pack_mlp(tensors_, op.mlp, dense_storage(tensors_.quant()), set_);
    device_matrices result{on_, images};
    loaded_.add(result.num_bytes(), op.mlp.num_matrices() * op.mlp.intermediate() * tensors_.config().hidden);
    return {op, std::move(result)};
  }

  cuda_add load(const add_op& op) { return {op, floats(op.gate)}; }

  const kernels::cuda::stream& on_;
  const tensor_source& tensors_;
  kernels::isa set_;
  load_counter loaded_;
  attention_weights result_;
};

} // namespace

attention_weights load_attention_weights(const kernels::cuda::stream& on, const tensor_source& tensors,
                                         kernels::isa set, const load_options& options,
                                         const load_progress& progress) {
  return loader(on, tensors, set, progress).run(positions_of(tensors.config(), options));
}

} // namespace troupe::model
