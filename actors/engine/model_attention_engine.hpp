// The attention engine on kernels: runs the attention side of a backend on the compute queue.
#pragma once

#include <cstdint>
#include <memory>

#include "actors/engine/compute_queue.hpp"
#include "actors/engine/device_loss.hpp"
#include "actors/engine/engine.hpp"
#include "kernels/model/attention_backend.hpp"

namespace troupe {

struct model_attention_config {
  model_shape shape;
  std::unique_ptr<model::attention_backend> backend; ///< its KV cache is not reserved yet
  std::shared_ptr<compute_queue> queue;
  std::uint64_t kv_cache_bytes = 0; ///< budget; at least one block must fit
  std::uint32_t block_tokens = 16;  ///< 16 or 32
  device_loss_report device_lost;
};

/// @throws std::runtime_error if the budget holds no block; std::bad_alloc
std::shared_ptr<attention_engine> make_model_attention_engine(model_attention_config config);

} // namespace troupe
