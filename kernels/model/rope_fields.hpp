#pragma once

#include "kernels/model/config.hpp"
#include "kernels/model/json_object.hpp"

namespace troupe::model {

/// Reads RoPE's parameters, in transformers' new form (`rope_parameters`) or the old one (`rope_theta`,
/// `rope_scaling`), and the context length they stretch to.
///
/// @param default_theta  where the config gives none
/// @errors  model_error that names an unsupported type or field
void read_rope(const json_object& json, double default_theta, model_config& config);

} // namespace troupe::model
