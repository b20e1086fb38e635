// The expert engine that computes: the expert side of a backend on the compute queue, loading on a thread of
// its own.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>

#include "actors/engine/compute_queue.hpp"
#include "actors/engine/device_loss.hpp"
#include "actors/engine/engine.hpp"
#include "kernels/model/expert_backend.hpp"

namespace troupe {

struct model_expert_config {
  model_shape shape;
  std::shared_ptr<model::expert_backend> backend;
  std::shared_ptr<compute_queue> queue;
  bool has_files = true; ///< false: what cannot be fetched cannot be loaded
  /// Called on the loading thread while an order is carried out: experts loaded of this order, and in all.
  /// May be null.
  std::function<void(size_t loaded, size_t total)> progress;
  /// Called on the loading thread after an order of which something could not be loaded: the first error, and
  /// whether anything is loaded at all. May be null.
  std::function<void(const std::exception& error, bool has_any)> failed;
  device_loss_report device_lost;
};

std::shared_ptr<expert_engine> make_model_expert_engine(model_expert_config config);

} // namespace troupe
