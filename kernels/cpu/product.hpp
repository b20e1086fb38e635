// How a product of rows and packed weights is cut into tiles, and one tile of it: what gemm and expert_ffn
// share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/context.hpp"
#include "kernels/cpu/kernel_table.hpp"
#include "kernels/packed_matrix.hpp"

namespace troupe::kernels::cpu {

/// Floats between rows for products: K padded to blocks of 32, and one cache line more, so that the rows of a
/// register block do not fall into one set of the L1 cache when K is a power of two.
constexpr std::size_t product_stride(std::size_t k) {
  return (k + 31) / 32 * 32 + 16;
}

/// Rows and panels of one tile.
struct tile_shape {
  std::size_t rows = 0;
  std::size_t panels = 0;
};

/// Tiles for `rows` rows: few rows stream four panels at a time (that many streams reach the memory limit),
/// many rows take as many rows as keep their K chunk in L2. Small products get smaller tiles, so that all
/// threads have some.
tile_shape tiles_for(const packed_shape& weight, std::size_t rows, unsigned threads);

/// Scratch of `multiply_tile`, bytes.
std::size_t tile_scratch_bytes(const tile_shape& tile);

/// Writes a row of `k` elements the way these weights take it.
void pack_row(const kernel_table& table, const packed_matrix& weight, const std::byte* row, dtype type,
              std::size_t k, float* out);

/// A tile's sums, [panels][rows][16] FP32, in `scratch`.
/// @param a  rows for products, `product_stride(K)` apart
float* multiply_tile(const kernel_table& table, const packed_matrix& weight, const float* a, std::size_t rows,
                     std::size_t first_panel, std::size_t panels, std::byte* scratch);

} // namespace troupe::kernels::cpu
