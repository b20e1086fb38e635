// Where a model's weights come from, in the layout that the kernels stream: a checkpoint that is converted,
// or a packed file that is mapped.
#pragma once

#include "kernels/expert_ffn.hpp"
#include "kernels/model/checkpoint.hpp"
#include "kernels/model/quantization.hpp"
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
class weight_source {
 public:
  weight_source(const weight_source&) = delete;
  weight_source& operator=(const weight_source&) = delete;
  virtual ~weight_source() = default;

  const model_config& config() const noexcept { return config_; }

  /// The type that rows are computed in: f32 or bf16.
  kernels::dtype type() const noexcept { return type_; }

  const quantization& quant() const noexcept { return quant_; }

  /// Of the checkpoint, whatever was made of it since.
  virtual std::string fingerprint() const = 0;

  /// A sentence's end for logs: "75 tensors" or "packed in FILE".
  virtual std::string description() const = 0;

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

  /// Called when an expert that was given is not used any more: pages of a mapped file go.
  virtual void forget(std::size_t layer, std::size_t expert) const noexcept = 0;

 protected:
  /// @errors  model_error where int8 rows would need wider sums than there are
  weight_source(model_config config, kernels::dtype type, const quantization& quant);

  /// Sets what is no part of the bytes.
  void finish(kernels::packed_matrix& matrix) const { matrix.set_rows(quant_.rows); }

  void finish(kernels::expert_weights& weights) const;

 private:
  void check_integer_sums() const;

  model_config config_;
  kernels::dtype type_;
  quantization quant_;
};

/// Weights of a checkpoint, packed when asked for; the pages read are given back to the page cache.
class checkpoint_source final : public weight_source {
 public:
  /// @param weights  matched with `config`
  /// @param type     f32 or bf16
  /// @param set      as `packed_matrix::pack`
  /// @errors  model_error for another type
  checkpoint_source(std::shared_ptr<const checkpoint> weights, model_config config, kernels::dtype type,
                    const quantization& quant = {}, kernels::isa set = kernels::isa::portable,
                    weight_coding coding = weight_coding::none);

  /// None where nothing stays in BF16.
  weight_coding coding() const noexcept { return coding_; }

  std::string fingerprint() const override { return weights_->fingerprint(config()); }

  std::string description() const override;
  std::vector<float> floats(const std::string& name) const override;
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

  std::shared_ptr<const checkpoint> weights_;
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

} // namespace troupe::model
