#include "kernels/model/attention_bytes.hpp"

#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/program/visit_weights.hpp"

namespace troupe::model {

namespace {

/// Adds up the weights of operations as `cpu_runner` holds them: products in panels, all else in FP32.
class byte_counter {
 public:
  byte_counter(kernels::dtype type, const quantization& quant) : type_(type), quant_(quant) {}

  std::size_t sum() const { return sum_; }

  void add(std::size_t bytes) { sum_ += bytes; }

  void add(const tensor_requirement& tensor) { sum_ += tensor.num_values() * sizeof(float); }

  void add(const matrix_ref& matrix) {
    sum_ +=
        kernels::packed_shape{format_of(matrix, quant_, type_), matrix.outputs(), matrix.inputs(), 1}.bytes();
    for (const auto& bias : matrix.biases)
      add(bias);
  }

  void add(const mlp_ref& mlp) { add(shapes_of_mlp(dense_format(quant_, type_), mlp).bytes()); }

 private:
  kernels::dtype type_;
  quantization quant_;
  std::size_t sum_ = 0;
};

} // namespace

std::size_t attention_bytes(const model_config& config, kernels::dtype type, const quantization& quant) {
  byte_counter bytes(type, quant);
  bytes.add(embedding_bytes(quant.dense == dense_quant::none ? type : kernels::dtype::int8, config.vocab_size,
                            config.hidden));
  if (config.position_embeddings)
    bytes.add(*config.position_embeddings);
  const weight_visitor visitor(bytes);
  for (const auto& layer : config.layers)
    for (const auto& op : layer.operations)
      std::visit(visitor, op);
  visitor(config.final_norm);
  bytes.add(config.output_head());
  return bytes.sum();
}

} // namespace troupe::model
