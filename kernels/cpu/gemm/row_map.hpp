// The memory layout of a product's rows.
#pragma once

#include <cstddef>

#include "kernels/cpu/gemm/plan.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/packed_matrix.hpp"

namespace troupe::kernels::cpu {

/// Floats between rows for products: K padded to blocks of 32, plus a cache line, so that the rows of a
/// register block do not share a set of the L1 cache when K is a power of two.
constexpr std::size_t product_stride(std::size_t k) {
  return (k + 31) / 32 * 32 + 16;
}

/// The same for rows of BF16 for dot products.
constexpr std::size_t dot_stride(std::size_t k) {
  return (k + 31) / 32 * 32 + 32;
}

/// Whether rows lie in tiles of 16, for a matrix unit.
constexpr bool in_tiles(row_layout layout) {
  return layout == row_layout::bf16_tiles || layout == row_layout::int8_tiles;
}

/// Bytes between rows of `inputs` elements, or between tiles of 16.
std::size_t row_stride_of(row_layout layout, std::size_t inputs);

/// The memory layout of rows for one kernel.
class row_map {
 public:
  row_map(const product_regime& regime, const packed_matrix& weight);

  row_layout layout() const { return layout_; }

  /// Bytes of N rows, a multiple of 64.
  std::size_t bytes(std::size_t rows) const;

  /// Start of row `r`. If r is a multiple of 16, rows [r, …) are themselves rows for products.
  std::size_t offset(std::size_t r) const {
    return in_tiles() ? r / 16 * stride_ + r % 16 * tile_row_bytes : r * stride_;
  }

  /// Bytes between 16 rows, and between the rows of such a tile.
  std::size_t tile_stride() const { return in_tiles() ? stride_ : 16 * stride_; }

  std::size_t row_stride() const { return in_tiles() ? tile_row_bytes : stride_; }

  /// Writes row `r`, of `weight.inputs()` elements, into rows that begin at `rows`, with the regime's table.
  void pack(const kernel_table& table, const std::byte* row, dtype type, std::byte* rows,
            std::size_t r) const;

 private:
  static constexpr std::size_t tile_row_bytes = 64;

  bool in_tiles() const { return cpu::in_tiles(layout_); }

  row_layout layout_;
  std::size_t inputs_;
  std::size_t stride_;
};

} // namespace troupe::kernels::cpu
