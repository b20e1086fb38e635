// Tiles of products with quantized weights, and with other weights that are unpacked for a matrix unit.
// Called by product.cpp.
#pragma once

#include <cstddef>

#include "kernels/cpu/gemm/product_tiles.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/packed_matrix.hpp"

namespace troupe::kernels::cpu {

/// The parts of a panel of quantized weights.
quant_panel panel_of(const packed_matrix& weight, std::size_t index);

/// c[runs][panels][rows][16] = rows times weights, scales applied. `c` must be zero, except for integer
/// products.
/// @param a         rows for products or, if the weights require it, for integer products, `a_stride` floats
/// apart
/// @param expanded  scratch for 256 of K of a panel as FP32
void multiply_quantized(const kernel_table& table, const product_regime& regime, const panel_range& range,
                        const float* a, std::size_t a_stride, std::size_t rows, float* c, float* expanded,
                        const upcoming_panels& next);

/// The same on a matrix unit. `c`: [panels][rows padded to 16][16], `c_stride` floats between panels.
/// @param a         rows in tiles
/// @param unpacked  scratch for `unpacked_bytes` of weights as BF16 pairs, at least 4 KiB
void multiply_unpacked_tiles(const kernel_table& table, const packed_matrix& weight, const std::byte* a,
                             std::size_t rows, std::size_t first_panel, std::size_t panels, float* c,
                             std::size_t c_stride, std::byte* unpacked, std::size_t unpacked_bytes);

/// The same with `row_layout::bf16_dots`, `a_stride` elements apart: c[p][r][0 … 15] += a[r] · panel p.
void multiply_quantized_dots(const kernel_table& table, const panel_range& range, const bfloat16* a,
                             std::size_t a_stride, std::size_t rows, float* c, std::byte* unpacked,
                             std::size_t unpacked_bytes);

} // namespace troupe::kernels::cpu
