// Puts together the usual parts of a decoder layer, with the tensor names that most families share.
#pragma once

#include "kernels/model/config.hpp"

#include <cstddef>
#include <string>

namespace troupe::model {

/// The norms of a model.
struct norm_parts {
  float epsilon = 0.0F;
  norm_kind kind = norm_kind::rms; ///< a LayerNorm has a bias
};

/// Where queries and keys are normalized.
enum class qk_norm_kind : std::uint8_t {
  none,
  per_head,   ///< one weight [head_dim] for every head (Qwen3)
  projection, ///< one weight over all heads (OLMoE)
};

struct attention_parts {
  bool qkv_bias = false;
  bool output_bias = false;
  qk_norm_kind norm = qk_norm_kind::none;
  float norm_epsilon = 0.0F;
  bool norm_follows_rotation = false;
  std::string query_norm = "q_norm";
  std::string key_norm = "k_norm";
};

class layer_builder {
 public:
  /// @param root  "model.", or where the language model is below others
  layer_builder(const model_config& config, std::size_t layer, const std::string& root = "model.",
                float residual_factor = 1.0F);

  /// A tensor of this layer.
  tensor_requirement tensor(const std::string& name, std::vector<std::size_t> shape) const {
    return {prefix_ + name, std::move(shape)};
  }

  /// A norm before attention ("input_layernorm").
  void attention_norm(const norm_parts& parts) { norm("input_layernorm", parts); }

  /// The same before the feed-forward block ("post_attention_layernorm").
  void mlp_norm(const norm_parts& parts) { norm("post_attention_layernorm", parts); }

  /// Below "self_attn": q_proj, k_proj, v_proj, o_proj and the norms.
  void attention(const attend_op& heads, const attention_parts& parts);

  /// Any other operation.
  void add(operation op) { layer_.operations.push_back(std::move(op)); }

  /// The output of attention, below "self_attn.o_proj", to the residual stream.
  void attention_output(std::size_t width, bool has_bias);

  /// A feed-forward block for every token, below `block`.
  void dense_mlp(const std::string& block, std::size_t intermediate);

  /// A router of `route.experts`, which are named. Its matrix is below `block`; sets what is not set.
  /// @param tensor  of the router, below `block`
  void route(const std::string& block, route_op route, const std::string& tensor = "gate.weight",
             matrix_storage storage = matrix_storage::plain);

  /// An expert for every token beside the routed ones, below `block`.
  void shared_expert(const std::string& block, std::size_t intermediate) {
    feed_forward(block, intermediate);
  }

  /// Adds the routed experts' answers.
  void combine() { add(combine_op{}); }

  /// Adds the dense MLP's or shared expert's output.
  /// @param gate  [1, hidden], below the layer; empty: none
  void add_mlp(const std::string& gate = {});

  /// Gives the experts their tensors' names below `block` of this layer: one by one, or fused as transformers
  /// 5 saves them, below `block` or "mlp".
  void name_experts(moe_spec& experts, const std::string& block, const std::string& gate = "gate_proj",
                    const std::string& up = "up_proj", const std::string& down = "down_proj") const;

  layer_program finish() { return std::move(layer_); }

 private:
  void norm(const char* name, const norm_parts& parts);
  void feed_forward(const std::string& name, std::size_t intermediate);

  std::size_t hidden_;
  std::string prefix_; // "model.layers.N."
  float residual_factor_;
  layer_program layer_;
};

/// Sets the norm in front of the head.
void set_final_norm(model_config& config, const norm_parts& parts);

} // namespace troupe::model
