// A model on the CPU: `cpu_runner` with a KV cache, and `expert_store`.
#pragma once

#include "kernels/context.hpp"
#include "kernels/model/compute_backend.hpp"
#include "kernels/model/cpu_weights.hpp"

#include <memory>

namespace troupe::model {

class cpu_backend final : public compute_backend {
 public:
  /// @param ctx  borrowed, outlives what this makes; both sides compute with it, so only one step at a time
  cpu_backend(kernels::context& ctx, std::shared_ptr<const cpu_weights> weights);

  std::unique_ptr<attention_backend> load_attention(const load_options& options,
                                                    const load_progress& progress = {}) override;
  std::unique_ptr<expert_backend> make_experts() override;

 private:
  kernels::context& ctx_;
  std::shared_ptr<const cpu_weights> weights_;
};

} // namespace troupe::model
