// Factors of queries that grow with their position (Llama 4's temperature).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/context.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// Per position 1 + scale · ln(1 + ⌊(position + 1) / floor⌋) (`attn_scale`, `floor_scale`), computed in
/// double without libm and rounded once: the same bits on every machine.
/// @throws kernel_error  `floor` is not positive
std::vector<float> query_factors(double scale, double floor, std::size_t positions);

/// rows[r] *= factors[positions[r]]: [rows, cols], f32, in place.
void scale_queries(context& ctx, tensor_view rows, std::span<const std::uint32_t> positions,
                   std::span<const float> factors);

} // namespace troupe::kernels
