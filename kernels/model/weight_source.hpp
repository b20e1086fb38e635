// The source of a model's weights, for every kind of packing: the model's identity, its numerics, and its
// tensors.
#pragma once

#include "kernels/model/checkpoint.hpp"
#include "kernels/model/quantization.hpp"
#include "kernels/tensor.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe::model {

/// What is known of weights before packing. Immutable; any number of threads may call.
class weight_source {
 public:
  weight_source(const weight_source&) = delete;
  weight_source& operator=(const weight_source&) = delete;
  virtual ~weight_source() = default;

  const model_config& config() const noexcept { return config_; }

  /// The type of rows in computations: f32 or bf16.
  kernels::dtype type() const noexcept { return type_; }

  const quantization& quant() const noexcept { return quant_; }

  /// Of the checkpoint, even after packing.
  virtual std::string fingerprint() const = 0;

  /// The end of a sentence for logs: "75 tensors" or "packed in FILE".
  virtual std::string description() const = 0;

 protected:
  weight_source(model_config config, kernels::dtype type, const quantization& quant);

 private:
  model_config config_;
  kernels::dtype type_;
  quantization quant_;
};

/// The tensors in a checkpoint's files, for a backend that packs them.
class tensor_source final : public weight_source {
 public:
  /// @param tensors  matched with `config`
  /// @param type     f32 or bf16
  /// @param fingerprint  of the tensors; empty: computed at each request
  /// @throws model_error  another type
  tensor_source(std::shared_ptr<const checkpoint> tensors, model_config config, kernels::dtype type,
                const quantization& quant = {}, std::string fingerprint = {});

  std::string fingerprint() const override {
    return fingerprint_.empty() ? tensors_->fingerprint(config()) : fingerprint_;
  }

  std::string description() const override;

  /// The folder of the files, for messages.
  const std::filesystem::path& folder() const noexcept { return tensors_->folder(); }

  /// A tensor with all of its pages read. It is in a mapped file: call `release_pages` after packing it.
  /// @throws model_error  its file has been truncated, has been written to or cannot be read, or a value is
  /// not finite: a matrix's in the type that the model computes in, a vector's in f32
  const tensor_ref& read(const std::string& name) const;

  /// All values of a vector, exact; its pages are returned to the page cache.
  /// @throws as `read`
  std::vector<float> floats(const std::string& name) const;

 private:
  std::shared_ptr<const checkpoint> tensors_;
  std::string fingerprint_;
};

} // namespace troupe::model
