// A model on a device: makes its attention and its expert side.
#pragma once

#include "kernels/model/attention_backend.hpp"
#include "kernels/model/expert_backend.hpp"
#include "kernels/model/load_options.hpp"

#include <memory>

namespace troupe::model {

/// Knows the source and the device of a model's weights, and loads none itself. What it makes may outlive it.
class compute_backend {
 public:
  virtual ~compute_backend() = default;

  /// Packs the weights of the attention side for the device. Reads only what that side needs.
  /// @throws model_error; std::bad_alloc; std::runtime_error if a device fails
  virtual std::unique_ptr<attention_backend> load_attention(const load_options& options,
                                                            const load_progress& progress = {}) = 0;

  /// Loads no expert yet: each is loaded on request.
  virtual std::unique_ptr<expert_backend> make_experts() = 0;
};

} // namespace troupe::model
