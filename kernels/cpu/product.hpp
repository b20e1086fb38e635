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

/// How the rows of a product lie in memory: what weights and instruction set want.
class row_map {
 public:
  /// @param rows  of the whole product: few rows may lie otherwise than many
  row_map(const kernel_table& table, const packed_matrix& weight, std::size_t rows);

  row_layout layout() const { return layout_; }

  /// Bytes of so many rows, a multiple of 64.
  std::size_t bytes(std::size_t rows) const;

  /// Where row `r` begins. Rows [r, …) are rows for products of their own where r is a multiple of 16.
  std::size_t offset(std::size_t r) const {
    return layout_ == row_layout::bf16_tiles ? r / 16 * stride_ + r % 16 * tile_row_bytes : r * stride_;
  }

  /// Bytes between rows; between 16 rows for tiles.
  std::size_t stride() const { return stride_; }

 private:
  static constexpr std::size_t tile_row_bytes = 64;

  row_layout layout_;
  std::size_t stride_;
};

/// Rows and panels of one tile.
struct tile_shape {
  std::size_t rows = 0;
  std::size_t panels = 0;
};

/// A tile's sums: row r of panel p at `c + p · panel_stride + r · 16`.
struct tile_sums {
  const float* c = nullptr;
  std::size_t panel_stride = 0;
};

/// Tiles for `rows` rows: few rows stream four panels at a time (that many streams reach the memory limit),
/// many rows take as many rows as keep their K chunk (or, on a matrix unit, all of them) in L2. Small
/// products get smaller tiles, so that all threads have some. Tiles begin at multiples of 16 rows if there
/// are several.
tile_shape tiles_for(const kernel_table& table, const packed_matrix& weight, std::size_t rows,
                     unsigned threads);

/// Scratch of `multiply_tile`, bytes.
std::size_t tile_scratch_bytes(const tile_shape& tile);

/// Writes a row of `k` elements as `layout` has it; `out`: the row's begin in its `row_map`.
void pack_row(const kernel_table& table, row_layout layout, const std::byte* row, dtype type, std::size_t k,
              std::byte* out);

/// A tile's sums, in `scratch`.
/// @param layout  of the product's rows: `row_map` knows
/// @param a       rows for products as `row_map` has them
tile_sums multiply_tile(const kernel_table& table, const packed_matrix& weight, row_layout layout,
                        const std::byte* a, std::size_t rows, std::size_t first_panel, std::size_t panels,
                        std::byte* scratch);

} // namespace troupe::kernels::cpu
