// The attention side's weights in device memory.
#pragma once

#include "kernels/model/cuda/device_matrices.hpp"
#include "kernels/model/cuda/device_vector.hpp"
#include "kernels/model/load_options.hpp"
#include "kernels/model/weight_source.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::model {

/// Rows to look up: [vocab, hidden], bf16, or int8 with a scale per row.
struct device_embeddings {
  kernels::dtype type = kernels::dtype::bf16;
  device_matrices as_matrix;           // bf16
  device_vector<std::int8_t> integers; // int8
  device_vector<float> row_scales;     // [vocab], int8

  const void* rows() const {
    return type == kernels::dtype::bf16 ? as_matrix.matrices()[0].weights
                                        : static_cast<const void*>(integers.data());
  }
};

struct attention_layer_weights {
  device_vector<float> attention_norm; // [hidden]
  device_matrices qkv;                 // [(heads + 2 kv_heads) · head_dim, hidden], with its bias
  device_vector<float> q_norm;         // [head_dim] or [heads · head_dim] or empty
  device_vector<float> k_norm;         // [head_dim] or [kv_heads · head_dim] or empty
  device_matrices output;              // [hidden, heads · head_dim], with its bias
  device_vector<float> mlp_norm;       // [hidden]
  device_matrices router;              // bf16 [experts, hidden] or empty
  device_matrices mlp;                 // gate, up, down of the dense MLP or shared expert; or empty
  device_vector<float> shared_gate;    // [hidden] or empty
};

struct attention_weights {
  device_embeddings embeddings;
  std::size_t positions = 0;
  device_vector<float> cosines; // [positions, rotary_dim / 2]
  device_vector<float> sines;
  std::vector<attention_layer_weights> layers;
  device_vector<float> final_norm; // [hidden]
  device_matrices own_lm_head;     // [vocab, hidden]; empty where the embeddings are it
  std::size_t num_bytes = 0;       // that all of it takes

  /// [vocab, hidden].
  const device_matrices& lm_head() const { return own_lm_head.empty() ? embeddings.as_matrix : own_lm_head; }
};

/// Packs them for the calling thread's device.
/// @param on   copies; idle when this returns
/// @param set  whose kernels help to quantize
/// @errors  model_error; device_error
attention_weights load_attention_weights(const kernels::cuda::stream& on, const tensor_source& tensors,
                                         kernels::isa set, const load_options& options,
                                         const load_progress& progress);

} // namespace troupe::model
