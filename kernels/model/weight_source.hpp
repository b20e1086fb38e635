// Where a model's weights come from, whatever they are packed for: which model it is, how it is to be
// computed, and its tensors.
#pragma once

#include "kernels/model/checkpoint.hpp"
#include "kernels/model/quantization.hpp"
#include "kernels/tensor.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe::model {

/// What is known of weights before a backend has packed any. Immutable; any number of threads may ask.
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

 protected:
  weight_source(model_config config, kernels::dtype type, const quantization& quant);

 private:
  model_config config_;
  kernels::dtype type_;
  quantization quant_;
};

/// The tensors of a checkpoint as they lie in its files, for a backend to pack.
class tensor_source final : public weight_source {
 public:
  /// @param tensors  matched with `config`
  /// @param type     f32 or bf16
  /// @errors  model_error for another type
  tensor_source(std::shared_ptr<const checkpoint> tensors, model_config config, kernels::dtype type,
                const quantization& quant = {});

  std::string fingerprint() const override { return tensors_->fingerprint(config()); }

  std::string description() const override;

  /// Where the files are, for messages.
  const std::filesystem::path& folder() const noexcept { return tensors_->folder(); }

  /// A tensor with all of its pages read. It lies in a mapped file: `release_pages` when it has been packed.
  /// @errors  model_error when its file has been cut short, has been written to or cannot be read, and for a
  ///          value that is not finite: a matrix's in the type that the model computes in, a vector's in f32
  const tensor_ref& read(const std::string& name) const;

  /// All values of a vector, exact; its pages are given back to the page cache.
  /// @errors  as `read`
  std::vector<float> floats(const std::string& name) const;

 private:
  std::shared_ptr<const checkpoint> tensors_;
};

} // namespace troupe::model
