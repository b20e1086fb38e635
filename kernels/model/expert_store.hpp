// The expert side of a model on the CPU.
#pragma once

#include "kernels/context.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/expert_backend.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace troupe::model {

/// Each expert is an immutable snapshot, which running computations keep alive.
class expert_store final : public expert_backend {
 public:
  /// @param ctx  borrowed; computes in `forward` with all of its threads
  expert_store(kernels::context& ctx, std::shared_ptr<const cpu_weights> weights);

  void load(std::size_t layer, std::size_t expert) override;
  std::shared_ptr<const packed_expert> packed(std::size_t layer, std::size_t expert) const override;
  std::unique_ptr<arriving_expert> expect(std::size_t layer, const std::string& layout) const override;
  void take(std::size_t layer, std::size_t expert, std::unique_ptr<arriving_expert> arrived) override;
  bool unload(std::size_t layer, std::size_t expert) override;

  bool has(std::size_t layer, std::size_t expert) const;

  std::size_t num_bytes() const override;
  std::size_t expert_bytes(std::size_t layer) const override;
  std::size_t usual_expert_bytes(std::size_t layer) const override;

  expert_residence place() const override {
    return weights_->is_mapped() ? expert_residence::page_cache : expert_residence::process;
  }

  const model_config& config() const override { return weights_->config(); }

  kernels::dtype type() const override { return weights_->type(); }

  std::optional<std::size_t> forward(std::size_t layer, std::span<const expert_rows> batch) override;

 private:
  using snapshot = std::shared_ptr<const kernels::expert_weights>;

  /// @throws model_error  the model has no such expert
  void check(std::size_t layer, std::size_t expert) const;
  void put(std::size_t layer, std::size_t expert, kernels::expert_weights weights);

  kernels::context& ctx_;
  std::shared_ptr<const cpu_weights> weights_;
  mutable std::mutex mutex_;
  std::vector<std::vector<snapshot>> experts_; // [layer][expert], null if not loaded
  std::size_t num_bytes_ = 0;
};

} // namespace troupe::model
