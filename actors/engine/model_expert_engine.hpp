// The expert engine on kernels: runs the expert side of a backend on the compute queue, and loads experts on
// a thread of its own.
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
  bool has_files = true; ///< false: experts that cannot be fetched cannot be loaded
  /// Called on the loading thread during an order, with the experts of the order loaded so far and their
  /// number. May be null.
  std::function<void(std::size_t loaded, std::size_t total)> progress;
  /// Called on the loading thread after an order with experts that could not be loaded, with the first error
  /// and whether any expert is loaded. May be null.
  std::function<void(const std::exception& error, bool has_any)> failed;
  device_loss_report device_lost;
};

std::shared_ptr<expert_engine> make_model_expert_engine(model_expert_config config);

} // namespace troupe
