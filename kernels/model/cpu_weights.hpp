// A model's weights in the layout that the CPU's kernels stream: from a checkpoint that is converted, or from
// a packed file that is mapped.
#pragma once

#include "kernels/expert_ffn.hpp"
#include "kernels/model/weight_source.hpp"
#include "kernels/packed_matrix.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::model {

/// Rows to look up: [vocab, hidden] of f32, bf16 or f16 as the product takes them, or int8 with a scale per
/// row. Owns them, or looks at a mapped file.
struct embedding_rows {
  kernels::buffer storage;
  kernels::const_tensor_view rows;
  /// [vocab], where rows are int8; null otherwise.
  const float* scales = nullptr;

  /// Of rows and scales together.
  std::size_t num_bytes() const noexcept;
};

/// Everything that a model needs, by what it is for. What is given looks at memory of the source, so a source
/// must outlive it. Immutable; any number of threads may ask.
class cpu_weights : public weight_source {
 public:
  /// All values of a vector, exact.
  virtual std::vector<float> floats(const std::string& name) const = 0;

  /// [N, K] matrices with equal K as one: the first one's outputs come first.
  /// @param plain  never quantized (routers)
  virtual kernels::packed_matrix matrix(std::span<const std::string> names, bool plain = false) const = 0;

  /// The gated MLP below `prefix` (gate_proj, up_proj, down_proj).
  virtual kernels::expert_weights mlp(const std::string& prefix) const = 0;

  virtual embedding_rows embeddings() const = 0;

  /// @errors  model_error when the source does not hold it, or its bytes are damaged
  virtual kernels::expert_weights expert(std::size_t layer, std::size_t expert) const = 0;

  /// Memory that an expert of an MoE layer takes, at most: where exponents are to be coded, some experts may
  /// not let themselves be.
  virtual std::size_t largest_expert(std::size_t layer) const;

  /// An expert from packed bytes that came from elsewhere, in the layout that `expert` would give.
  kernels::expert_weights assemble(kernels::packed_matrix gate_up, kernels::packed_matrix down) const;

  /// Called when an expert that was given is not used any more: pages of a mapped file go.
  virtual void forget(std::size_t layer, std::size_t expert) const noexcept = 0;

 protected:
  /// @errors  model_error where int8 rows would need wider sums than there are
  cpu_weights(model_config config, kernels::dtype type, const quantization& quant);

  /// Sets what is no part of the bytes.
  void finish(kernels::packed_matrix& matrix) const { matrix.set_rows(quant().rows); }

  void finish(kernels::expert_weights& weights) const;

 private:
  void check_integer_sums() const;
};

/// Weights of a checkpoint, packed when asked for; the pages read are given back to the page cache.
class checkpoint_source final : public cpu_weights {
 public:
  /// @param set  as `packed_matrix::pack`
  explicit checkpoint_source(std::shared_ptr<const tensor_source> tensors,
                             kernels::isa set = kernels::isa::portable,
                             weight_coding coding = weight_coding::none);

  /// The same with tensors of its own, as `tensor_source`.
  checkpoint_source(std::shared_ptr<const checkpoint> weights, model_config config, kernels::dtype type,
                    const quantization& quant = {}, kernels::isa set = kernels::isa::portable,
                    weight_coding coding = weight_coding::none);

  /// None where nothing stays in BF16.
  weight_coding coding() const noexcept { return coding_; }

  std::string fingerprint() const override { return tensors_->fingerprint(); }

  std::string description() const override { return tensors_->description(); }

  std::vector<float> floats(const std::string& name) const override { return tensors_->floats(name); }

  kernels::packed_matrix matrix(std::span<const std::string> names, bool plain) const override;
  kernels::expert_weights mlp(const std::string& prefix) const override;
  embedding_rows embeddings() const override;
  kernels::expert_weights expert(std::size_t layer, std::size_t expert) const override;

  void forget(std::size_t, std::size_t) const noexcept override {}

 private:
  /// What `pack` returns. @errors  model_error that says where, for weights that cannot be packed
  template <class Pack>
  auto packed(const std::string& name, const Pack& pack) const;
  void code(kernels::packed_matrix& matrix) const;
  void code(kernels::expert_weights& weights) const;

  std::shared_ptr<const tensor_source> tensors_;
  kernels::isa set_;
  weight_coding coding_;
};

/// Shapes of an MLP's two matrices in `format`.
struct mlp_shapes {
  kernels::packed_shape gate_up;
  kernels::packed_shape down;

  std::size_t bytes() const { return gate_up.bytes() + down.bytes(); }
};

mlp_shapes shapes_of_mlp(kernels::packed_format format, std::size_t hidden, std::size_t intermediate);

/// The layout of routed experts' weights.
kernels::packed_format expert_format(const quantization& quant, kernels::dtype type);

/// The layout of the attention side's matrices, routers excepted.
kernels::packed_format dense_format(const quantization& quant, kernels::dtype type);

} // namespace troupe::model
