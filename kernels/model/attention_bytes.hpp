// Memory of the attention side's weights on the CPU, before anything is loaded.
#pragma once

#include "kernels/model/config.hpp"
#include "kernels/model/quantization.hpp"
#include "kernels/tensor.hpp"

#include <cstddef>

namespace troupe::model {

/// What `cpu_runner::num_bytes` is once the weights are loaded; more where exponents are coded. Embeddings
/// that are stored in F16 for a model in FP32 take half of what is counted.
/// @param type  in which the model computes
std::size_t attention_bytes(const model_config& config, kernels::dtype type, const quantization& quant);

} // namespace troupe::model
