// Experts with many rows each, by `many_rows`.
#pragma once

#include <memory>

#include "kernels/cuda/experts.hpp"

namespace troupe::kernels::cuda {

/// All experts at once, in grouped products; of quantized ones as many as the limits allow to be BF16 at one
/// time. Gate and up are rounded to BF16 before they are multiplied. Takes its memory when the first work
/// comes.
/// @param limits  those of the pass that it is for
std::unique_ptr<many_row_experts> make_many_row_experts(const expert_pass_limits& limits);

} // namespace troupe::kernels::cuda
