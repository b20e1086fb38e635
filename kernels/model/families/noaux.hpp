// The feed-forward blocks of DeepSeek's descendants (DeepSeek, Kimi, GLM, dots): dense layers first, then
// routed and shared experts, chosen by scores with a bias ("noaux_tc") or by groups.
#pragma once

#include "kernels/model/families/layer_builder.hpp"
#include "kernels/model/json_object.hpp"

#include <cstddef>
#include <vector>

namespace troupe::model {

/// What a family takes for absent fields.
struct noaux_defaults {
  std::size_t num_groups = 1;
  std::size_t kept_groups = 1;
  bool renormalise = true;
  double scale = 1.0;
  std::size_t dense_layers = 1;
  std::size_t shared_experts = 1;
  const char* topk_method = "noaux_tc";
};

class noaux_layers {
 public:
  /// Reads all fields of the blocks.
  /// @throws model_error naming the field
  noaux_layers(const json_object& json, std::size_t num_layers, const noaux_defaults& defaults,
               model_config& config);

  /// Adds the block of layer `index`, below "mlp".
  void add_to(layer_builder& layer, std::size_t index);

 private:
  void read_router(const json_object& json, const noaux_defaults& defaults);

  std::vector<bool> is_sparse_;
  std::size_t dense_ = 0;  // intermediate size of dense layers
  std::size_t shared_ = 0; // of the shared experts together; 0: none
  bool has_choice_bias_ = false;
  route_op router_;
};

} // namespace troupe::model
