// The attention engine that computes: the attention side of a backend on the compute queue.
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
  std::unique_ptr<model::attention_backend> backend; ///< without a KV cache yet
  std::shared_ptr<compute_queue> queue;
  uint64_t kv_cache_bytes = 0; ///< budget; at least one block must fit
  uint32_t block_tokens = 16;  ///< 16 or 32
  device_loss_report device_lost;
};

/// @throws std::runtime_error when the budget holds no block; std::bad_alloc
std::shared_ptr<attention_engine> make_model_attention_engine(model_attention_config config);

} // namespace troupe
