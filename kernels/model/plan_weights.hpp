// Which products a model asks of the CPU: what a plan is measured with.
#pragma once

#include "kernels/calibration.hpp"
#include "kernels/model/config.hpp"
#include "kernels/model/quantization.hpp"

#include <string>
#include <vector>

namespace troupe::model {

/// The experts and a typical layer's matrices of a model in the formats that it is loaded in, each format
/// once.
/// @param coding  of matrices that stay in BF16
std::vector<kernels::calibration_weights> plan_weights(const model_config& config, kernels::dtype type,
                                                       const quantization& quant, weight_coding coding);

/// "bf16-pair experts 1024x1792, 1536x1024, …" in one line.
std::string text_of(const std::vector<kernels::calibration_weights>& weights);

} // namespace troupe::model
