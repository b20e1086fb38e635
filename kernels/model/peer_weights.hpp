// A model of which this machine has the configuration and no weights: its experts come from other workers.
#pragma once

#include "kernels/model/cpu_weights.hpp"

#include <filesystem>
#include <string>

namespace troupe::model {

/// Whether `folder` holds weights: a packed file, or a checkpoint's.
bool has_weights(const std::filesystem::path& folder);

/// Stands for weights that are elsewhere: says which model it is and how it is laid out, and has no bytes.
class peer_weights final : public cpu_weights {
 public:
  /// @param fingerprint  of the checkpoint, as whoever has it says
  /// @param folder  for messages
  /// @errors  model_error as `cpu_weights`
  peer_weights(model_config config, kernels::dtype type, const quantization& quant, std::string fingerprint,
               std::filesystem::path folder);

  std::string fingerprint() const override { return fingerprint_; }

  std::string description() const override { return "from other workers"; }

  /// All of these: @errors  model_error: there are none
  std::vector<float> floats(const std::string& name) const override;
  kernels::packed_matrix matrix(std::span<const std::string> names, bool plain) const override;
  kernels::expert_weights mlp(const std::string& prefix) const override;
  embedding_rows embeddings() const override;
  kernels::expert_weights expert(std::size_t layer, std::size_t expert) const override;

  void forget(std::size_t, std::size_t) const noexcept override {}

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::string fingerprint_;
  std::filesystem::path folder_;
};

} // namespace troupe::model
