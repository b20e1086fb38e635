// The attention engine that computes: kernels/model's dense half on the compute queue, with the KV cache.
#pragma once

#include <cstdint>
#include <memory>

#include "actors/engine/compute_queue.hpp"
#include "actors/engine/engine.hpp"
#include "kernels/model/dense_model.hpp"

namespace troupe {

struct model_attention_config {
  model_shape shape;
  std::shared_ptr<const model::dense_model> model;
  std::shared_ptr<compute_queue> queue;
  uint64_t kv_cache_bytes = 0; ///< budget; at least one block must fit
  uint32_t block_tokens = 16;  ///< 16 or 32
};

/// @throws std::runtime_error when the budget holds no block; std::bad_alloc
std::shared_ptr<attention_engine> make_model_attention_engine(model_attention_config config);

} // namespace troupe
