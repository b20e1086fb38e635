// Multi-head latent attention of DeepSeek's descendants.
#pragma once

#include "kernels/model/families/layer_builder.hpp"
#include "kernels/model/json_object.hpp"

#include <cstddef>

namespace troupe::model {

class latent_attention {
 public:
  /// Reads its fields; the rotation is in `config` already.
  /// @param rope_dim  qk_rope_head_dim
  /// @throws model_error naming the field
  latent_attention(const json_object& json, std::size_t rope_dim, std::size_t num_layers,
                   const model_config& config);

  /// Below "self_attn": q_proj, or q_a_proj and q_b_proj with a norm between; kv_a_proj_with_mqa, kv_b_proj,
  /// o_proj. kv_b_proj is taken apart by heads: its keys are absorbed into queries.
  void add_to(layer_builder& layer, const model_config& config) const;

 private:
  std::size_t query_rank_ = 0; // q_lora_rank; 0: none
  attend_latent_op op_;
};

} // namespace troupe::model
