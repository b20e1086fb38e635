// Tiles of products with quantized weights: what product.cpp hands on.
#pragma once

#include <cstddef>

#include "kernels/cpu/kernel_table.hpp"
#include "kernels/packed_matrix.hpp"

namespace troupe::kernels::cpu {

/// c[panels][rows][16] = rows times weights, scales applied. `c` comes zeroed.
/// @param a         rows for products, or for integer products where the weights want them so,
///                  `product_stride(K)` floats apart
/// @param expanded  scratch for `expanded_blocks` blocks of a panel as FP32
void multiply_quantized(const kernel_table& table, const packed_matrix& weight, const float* a,
                        std::size_t rows, std::size_t first_panel, std::size_t panels, float* c,
                        float* expanded, std::size_t expanded_blocks);

} // namespace troupe::kernels::cpu
