// The attention side's weights in device memory.
#pragma once

#include "kernels/model/cuda/device_matrices.hpp"
#include "kernels/model/cuda/device_vector.hpp"
#include "kernels/model/load_options.hpp"
#include "kernels/model/weight_source.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::model {

/// Embedding rows: [vocab, hidden], bf16, or int8 with a scale per row.
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

// The operations of a program with their weights on the device.

struct cuda_norm {
  norm_op op;
  device_vector<float> weight; // [width]
  device_vector<float> bias;   // [width] or empty
};

struct cuda_project {
  project_op op;
  device_matrices matrix; // one, with its bias
};

struct cuda_attend {
  attend_op op;
  device_vector<float> query_norm; // as op.norm; or empty
  device_vector<float> key_norm;
  const float* query_factors = nullptr; // [positions], of all layers of one temperature; or null
  device_vector<float> sinks;           // [heads] or empty
};

struct cuda_attend_latent {
  attend_latent_op op;
  device_vector<float> norm;   // [latent_dim]
  device_matrices key_heads;   // of each head [latent_dim, nope_dim]
  device_matrices value_heads; // of each head [value_dim, latent_dim]
};

struct cuda_route {
  route_op op;
  device_matrices matrix;            // bf16 [experts, hidden], or
  device_vector<float> exact_matrix; // f32
  device_vector<float> bias;         // [experts] or empty
  device_vector<float> choice_bias;  // [experts] or empty
};

struct cuda_feed_forward {
  feed_forward_op op;
  device_matrices matrices; // gate, up if gated, down
};

struct cuda_add {
  add_op op;
  device_vector<float> gate; // [hidden] or empty
};

using cuda_operation = std::variant<cuda_norm, cuda_project, cuda_attend, cuda_attend_latent, cuda_route,
                                    combine_op, cuda_feed_forward, cuda_add>;

struct attention_weights {
  device_embeddings embeddings;
  device_vector<float> position_embeddings; // [max_context, hidden] or empty
  std::size_t positions = 0;
  device_vector<float> cosines; // [positions, rotary_dim / 2]
  device_vector<float> sines;
  std::map<std::pair<float, float>, device_vector<float>> query_factors; // [positions], by scale and floor
  std::vector<std::vector<cuda_operation>> layers;
  cuda_norm final_norm;
  device_matrices own_lm_head; // [vocab, hidden], with its bias; empty if tied to the embeddings
  std::size_t num_bytes = 0;   // of all weights

  /// [vocab, hidden].
  const device_matrices& lm_head() const { return own_lm_head.empty() ? embeddings.as_matrix : own_lm_head; }
};

/// Packs them for the calling thread's device.
/// @param on   copies; idle when this returns
/// @param set  its kernels help to quantize
/// @throws model_error, device_error
attention_weights load_attention_weights(const kernels::cuda::stream& on, const tensor_source& tensors,
                                         kernels::isa set, const load_options& options,
                                         const load_progress& progress);

} // namespace troupe::model
