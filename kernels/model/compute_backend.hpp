// A model on a device: makes both of its sides.
#pragma once

#include "kernels/model/attention_backend.hpp"
#include "kernels/model/expert_backend.hpp"
#include "kernels/model/load_options.hpp"

#include <memory>

namespace troupe::model {

/// Knows where a model's weights are to be had and where they are to be computed, and loads none of them
/// itself. What it makes may outlive it.
class compute_backend {
 public:
  virtual ~compute_backend() = default;

  /// Packs the weights of the attention side for the device. Of the source only what that side needs is
  /// touched.
  /// @errors  model_error; std::bad_alloc; std::runtime_error where a device fails
  virtual std::unique_ptr<attention_backend> load_attention(const load_options& options,
                                                            const load_progress& progress = {}) = 0;

  /// Loads nothing yet: only experts that are loaded are asked for.
  virtual std::unique_ptr<expert_backend> make_experts() = 0;
};

} // namespace troupe::model
