// The CPU products of a model, for measuring a plan.
#pragma once

#include "kernels/calibration.hpp"
#include "kernels/model/config.hpp"
#include "kernels/model/quantization.hpp"

#include <string>
#include <vector>

namespace troupe::model {

/// A model's experts and a typical layer's matrices in the formats in which they are loaded, each format
/// once.
/// @param coding  of matrices that stay in BF16
std::vector<kernels::calibration_weights> plan_weights(const model_config& config, kernels::dtype type,
                                                       const quantization& quant, weight_coding coding);

/// "bf16-pair experts 1024x1792, 1536x1024, …" in one line.
std::string text_of(const std::vector<kernels::calibration_weights>& weights);

} // namespace troupe::model
