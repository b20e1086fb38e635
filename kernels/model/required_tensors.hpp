// The tensors that a program requires.
#pragma once

#include "kernels/model/config.hpp"

#include <cstddef>
#include <vector>

namespace troupe::model {

/// Every tensor of the attention side: embeddings, final norm and head, then layer by layer, norms first.
std::vector<tensor_requirement> dense_tensors(const model_config& config);

/// Every tensor of one layer's routed experts; empty for a dense layer.
std::vector<tensor_requirement> expert_layer_tensors(const model_config& config, std::size_t layer);

/// The tensors of one routed expert.
/// @param layer  a routed one
mlp_ref expert_tensors(const model_config& config, std::size_t layer, std::size_t expert);

} // namespace troupe::model
