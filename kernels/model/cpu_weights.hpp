// A model's weights in the layout of the CPU's kernels, converted from a checkpoint or mapped from a packed
// file.
#pragma once

#include "kernels/expert_ffn.hpp"
#include "kernels/model/weight_source.hpp"
#include "kernels/packed_matrix.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::model {

/// Embedding rows: [vocab, hidden] of f32, bf16 or f16, or int8 with a scale per row. Owns them, or refers to
/// a mapped file.
struct embedding_rows {
  kernels::buffer storage;
  kernels::const_tensor_view rows;
  /// [vocab], for int8 rows; null otherwise.
  const float* scales = nullptr;

  /// Of rows and scales together.
  std::size_t num_bytes() const noexcept;
};

/// All weights of a model, by purpose. Results refer to memory of the source, which must outlive them.
/// Immutable; any number of threads may call.
class cpu_weights : public weight_source {
 public:
  /// All values of a vector, exact.
  virtual std::vector<float> floats(const tensor_requirement& tensor) const = 0;

  virtual kernels::packed_matrix matrix(const matrix_ref& ref) const = 0;

  /// A dense MLP or shared expert.
  virtual kernels::expert_weights mlp(const mlp_ref& ref) const = 0;

  virtual embedding_rows embeddings() const = 0;

  /// @throws model_error  the source lacks it, or its bytes are damaged
  virtual kernels::expert_weights expert(std::size_t layer, std::size_t expert) const = 0;

  /// Whether the weights are in a mapped file.
  virtual bool is_mapped() const noexcept { return false; }

  /// Upper bound of the memory of an expert of an MoE layer. Some experts cannot be exponent-coded and stay
  /// plain.
  virtual std::size_t largest_expert(std::size_t layer) const;

  /// About the memory of an expert of an MoE layer whose exponents can be coded.
  virtual std::size_t usual_expert(std::size_t layer) const { return largest_expert(layer); }

  /// An expert of `layer` from packed bytes of another source, in the layout of `expert`.
  /// @param biases  [gate | up if gated | down], or empty
  kernels::expert_weights assemble(std::size_t layer, kernels::packed_matrix gate_up,
                                   kernels::packed_matrix down, std::vector<float> biases) const;

  /// Called when an expert is not used any more: pages of a mapped file are released.
  virtual void forget(std::size_t layer, std::size_t expert) const noexcept = 0;

 protected:
  /// @throws model_error  int8 rows would need wider sums
  cpu_weights(model_config config, kernels::dtype type, const quantization& quant);

  /// Sets what is not part of the bytes.
  void finish(kernels::packed_matrix& matrix) const { matrix.set_rows(quant().rows); }

  /// Sets what is not part of the two matrices.
  /// @param biases  [gate | up if gated | down], or empty
  void finish(kernels::expert_weights& weights, const mlp_ref& ref, std::vector<float> biases) const;

 private:
  void check_integer_sums() const;
};

/// Weights of a checkpoint, packed on request; the pages read are returned to the page cache.
class checkpoint_source final : public cpu_weights {
 public:
  /// @param set  as in `packed_matrix::pack`
  explicit checkpoint_source(std::shared_ptr<const tensor_source> tensors,
                             kernels::isa set = kernels::isa::portable,
                             weight_coding coding = weight_coding::none);

  /// The same, with its own `tensor_source`.
  checkpoint_source(std::shared_ptr<const checkpoint> weights, model_config config, kernels::dtype type,
                    const quantization& quant = {}, kernels::isa set = kernels::isa::portable,
                    weight_coding coding = weight_coding::none);

  /// `none` if nothing stays in BF16.
  weight_coding coding() const noexcept { return coding_; }

  std::string fingerprint() const override { return tensors_->fingerprint(); }

  std::string description() const override { return tensors_->description(); }

  std::vector<float> floats(const tensor_requirement& tensor) const override {
    return tensors_->floats(tensor.name);
  }

  kernels::packed_matrix matrix(const matrix_ref& ref) const override;
  kernels::expert_weights mlp(const mlp_ref& ref) const override;
  embedding_rows embeddings() const override;
  kernels::expert_weights expert(std::size_t layer, std::size_t expert) const override;

  void forget(std::size_t, std::size_t) const noexcept override {}

  std::size_t usual_expert(std::size_t layer) const override {
    return coding_ == weight_coding::exponents ? largest_expert(layer) / 4 * 3 : largest_expert(layer);
  }

 private:
  kernels::expert_weights mlp(const mlp_ref& ref, kernels::packed_format format) const;
  /// Calls `pack`.
  /// @throws model_error with the place, for weights that cannot be packed
  template <class Pack>
  auto packed(const std::string& name, const Pack& pack) const;
  void code(kernels::packed_matrix& matrix) const;
  void code(kernels::expert_weights& weights) const;

  std::shared_ptr<const tensor_source> tensors_;
  kernels::isa set_;
  weight_coding coding_;
};

/// Elements between rows of embeddings: a multiple of 64 bytes.
std::size_t embedding_stride(kernels::dtype type, std::size_t hidden);

/// `embedding_rows::num_bytes` of embeddings in `type`: f32, bf16, f16 or int8.
std::size_t embedding_bytes(kernels::dtype type, std::size_t vocab, std::size_t hidden);

/// Shapes of an MLP's two matrices in `format`, and its biases, which follow them.
struct mlp_shapes {
  kernels::packed_shape gate_up;
  kernels::packed_shape down;
  std::size_t num_biases = 0; ///< f32 values: of gate, up if gated, and down; 0: none

  std::size_t bytes() const { return gate_up.bytes() + down.bytes() + num_biases * sizeof(float); }
};

mlp_shapes shapes_of_mlp(kernels::packed_format format, const mlp_ref& ref);

/// The layout of routed experts' weights.
kernels::packed_format expert_format(const quantization& quant, kernels::dtype type);

/// The layout of the attention side's matrices, except those that are not quantized.
kernels::packed_format dense_format(const quantization& quant, kernels::dtype type);

/// The layout of a matrix, before its exponents are coded.
kernels::packed_format format_of(const matrix_ref& ref, const quantization& quant, kernels::dtype type);

} // namespace troupe::model
