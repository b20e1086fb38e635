// How a product of rows and packed weights is cut into tiles, and one tile of it: what gemm and expert_ffn
// share.
#pragma once

#include <algorithm>
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

/// The same of BF16 between rows for dot products.
constexpr std::size_t dot_stride(std::size_t k) {
  return (k + 31) / 32 * 32 + 32;
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
    return in_tiles() ? r / 16 * stride_ + r % 16 * tile_row_bytes : r * stride_;
  }

  /// Bytes between 16 rows, and between the rows of such a tile.
  std::size_t tile_stride() const { return in_tiles() ? stride_ : 16 * stride_; }

  std::size_t row_stride() const { return in_tiles() ? tile_row_bytes : stride_; }

  /// Writes row `r`, of `weight.inputs()` elements, into rows that begin at `rows`.
  void pack(const kernel_table& table, const std::byte* row, dtype type, std::byte* rows,
            std::size_t r) const;

 private:
  static constexpr std::size_t tile_row_bytes = 64;

  bool in_tiles() const { return layout_ == row_layout::bf16_tiles || layout_ == row_layout::int8_tiles; }

  row_layout layout_;
  std::size_t inputs_;
  std::size_t stride_;
};

/// Rows and panels of one tile. Panels are neighbours, or as many neighbours of each of several runs, so that
/// a thread that takes one tile after the other reads on where it was in each run.
struct tile_shape {
  std::size_t rows = 0;
  std::size_t panels = 0; // of all runs together
  std::size_t runs = 1;
};

/// A tile's sums: row r of panel p at `c + p · panel_stride + r · 16`.
struct tile_sums {
  const float* c = nullptr;
  std::size_t panel_stride = 0;

  tile_sums from(std::size_t panel) const { return {c + panel * panel_stride, panel_stride}; }
};

/// Tiles for `rows` rows: few rows stream four panels at a time (that many streams reach the memory limit),
/// of four runs where the instruction set wants them; many rows take as many rows as keep their K chunk (or,
/// on a matrix unit, all of them) in L2. Small products get smaller tiles, so that all threads have some.
/// Tiles begin at multiples of 16 rows if there are several.
tile_shape tiles_for(const kernel_table& table, const packed_matrix& weight, std::size_t rows,
                     unsigned threads);

/// Panels [first, first + count) of a weight, and as many of each further run, `stride` panels apart; none
/// where `weight` is null.
struct panel_range {
  const packed_matrix* weight = nullptr;
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t runs = 1;
  std::size_t stride = 0;

  /// Those of one run.
  panel_range run(std::size_t index) const { return {weight, first + index * stride, count}; }
};

/// How many tiles the panels of a weight make, and the panels of one of them.
std::size_t panel_tiles(const packed_matrix& weight, const tile_shape& tile);
panel_range panel_tile(const packed_matrix& weight, const tile_shape& tile, std::size_t index);

/// One tile of a product.
struct tile_work {
  const kernel_table& table;
  row_layout layout; // of the whole product's rows: `row_map` knows
  panel_range panels;
  /// Rows for products as `row_map` has them.
  const std::byte* a = nullptr;
  std::size_t rows = 0;
  /// What the same thread will multiply next: is fetched meanwhile.
  panel_range next{};
};

/// How a tile's sums are made: so many rows and panels at a time that they stay near until they are used.
tile_shape part_of(const tile_work& work);

/// Scratch of `multiply_tile`, bytes.
std::size_t tile_scratch_bytes(const kernel_table& table, const packed_matrix& weight, std::size_t rows,
                               const tile_shape& tile);

/// Unpacks what has to be before panels [first, first + count) of the tile meet their rows. `fetch`: what is
/// to come after them.
void begin_panels(const tile_work& work, const panel_range& panels, const panel_range& next,
                  std::byte* scratch, panel_fetch& fetch);

/// Sums of `rows` of the tile's rows from `row` on with those panels, run by run, in `scratch`.
tile_sums multiply_part(const tile_work& work, const panel_range& panels, const panel_range& next,
                        std::size_t row, std::size_t rows, std::byte* scratch, panel_fetch& fetch);

/// Calls `finish(panels, row, rows, sums, fetch)` for the parts of a tile, rows counted within the tile. Who
/// finishes a row steps `fetch`.
template <class Finish>
void multiply_tile(const tile_work& work, std::byte* scratch, const Finish& finish) {
  const tile_shape part = part_of(work);
  for (std::size_t p = 0; p < work.panels.count; p += part.panels) {
    const auto range = [&](std::size_t from) {
      return panel_range{work.panels.weight, work.panels.first + from,
                         std::min(part.panels, work.panels.count - from), work.panels.runs,
                         work.panels.stride};
    };
    const panel_range panels = range(p);
    const panel_range next = p + panels.count < work.panels.count ? range(p + panels.count) : work.next;
    panel_fetch fetch;
    begin_panels(work, panels, next, scratch, fetch);
    for (std::size_t row = 0; row < work.rows; row += part.rows) {
      const std::size_t rows = std::min(part.rows, work.rows - row);
      const tile_sums sums = multiply_part(work, panels, next, row, rows, scratch, fetch);
      for (std::size_t run = 0; run < panels.runs; ++run)
        finish(panels.run(run), row, rows, sums.from(run * panels.count), fetch);
    }
  }
}

} // namespace troupe::kernels::cpu
