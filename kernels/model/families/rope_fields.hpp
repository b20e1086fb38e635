// RoPE's fields of config.json: rope_theta, rope_scaling and rope_parameters.
#pragma once

#include "kernels/model/config.hpp"
#include "kernels/model/json_object.hpp"

#include <cstddef>

namespace troupe::model {

/// What a family takes for absent fields.
struct rope_defaults {
  double theta = 1e4;
  double partial = 1.0; ///< partial_rotary_factor
  bool may_be_partial = false;
};

/// Sets `rope`, and stretches `max_context` by its scaling.
/// @param head_dim  of which `rotary_dim` elements rotate
/// @throws model_error naming an unsupported type or field
void read_rope(const json_object& json, const rope_defaults& defaults, std::size_t head_dim,
               model_config& config);

} // namespace troupe::model
