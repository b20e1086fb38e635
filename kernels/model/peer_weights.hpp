// A model with a local configuration but no local weights: its experts come from other workers.
#pragma once

#include "kernels/model/cpu_weights.hpp"

#include <filesystem>
#include <string>

namespace troupe::model {

/// Whether `folder` holds weights: a packed file, or a checkpoint's.
bool has_weights(const std::filesystem::path& folder);

/// Represents weights that are elsewhere: it has the model's identity and layout, and no bytes.
class peer_weights final : public cpu_weights {
 public:
  /// @param fingerprint  of the checkpoint, from a worker that has it
  /// @param folder  for messages
  /// @throws model_error as `cpu_weights`
  peer_weights(model_config config, kernels::dtype type, const quantization& quant, std::string fingerprint,
               std::filesystem::path folder);

  std::string fingerprint() const override { return fingerprint_; }

  std::string description() const override { return "from other workers"; }

  /// All of these throw model_error: there are no weights.
  std::vector<float> floats(const tensor_requirement& tensor) const override;
  kernels::packed_matrix matrix(const matrix_ref& ref) const override;
  kernels::expert_weights mlp(const mlp_ref& ref) const override;
  embedding_rows embeddings() const override;
  kernels::expert_weights expert(std::size_t layer, std::size_t expert) const override;

  void forget(std::size_t, std::size_t) const noexcept override {}

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::string fingerprint_;
  std::filesystem::path folder_;
};

} // namespace troupe::model
