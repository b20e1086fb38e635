// Computes experts with many rows each, with `many_rows`.
#pragma once

#include <memory>

#include "kernels/cuda/experts.hpp"

namespace troupe::kernels::cuda {

/// All experts at once, in grouped products; quantized ones as many at a time as the limits allow to be BF16.
/// Gate and up are rounded to BF16 before they are multiplied. Allocates memory for the first work.
/// @param limits  of the pass that uses it
std::unique_ptr<many_row_experts> make_many_row_experts(const expert_pass_limits& limits);

} // namespace troupe::kernels::cuda
