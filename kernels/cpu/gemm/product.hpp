// One tile of a product of rows and packed weights: the common part of gemm and expert_ffn.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/gemm/product_tiles.hpp"
#include "kernels/cpu/gemm/row_map.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/packed_matrix.hpp"

namespace troupe::kernels::cpu {

/// A tile's sums: row r of panel p at `c + p · panel_stride + r · 16`.
struct tile_sums {
  const float* c = nullptr;
  std::size_t panel_stride = 0;

  tile_sums from(std::size_t panel) const { return {c + panel * panel_stride, panel_stride}; }
};

/// One tile of a product.
struct tile_work {
  const kernel_table& table;    // of the regime's set
  const product_regime& regime; // of the whole product's rows
  panel_range panels;
  /// Rows for products in the layout of `row_map`.
  const std::byte* a = nullptr;
  std::size_t rows = 0;
  /// The thread's next tile, which is prefetched meanwhile.
  panel_range next{};
};

/// The parts of a tile.
tile_shape part_of(const tile_work& work);

/// Scratch of `multiply_tile`, bytes.
std::size_t tile_scratch_bytes(const product_regime& regime, const packed_matrix& weight, std::size_t rows,
                               const tile_shape& tile);

/// Unpacks, if needed, panels [first, first + count) of the tile before their products. `fetch`: what comes
/// afterwards.
void begin_panels(const tile_work& work, const panel_range& panels, const panel_range& next,
                  std::byte* scratch, panel_fetch& fetch);

/// Sums of `rows` of the tile's rows from `row` on with those panels, run by run, in `scratch`.
tile_sums multiply_part(const tile_work& work, const panel_range& panels, const panel_range& next,
                        std::size_t row, std::size_t rows, std::byte* scratch, panel_fetch& fetch);

/// Calls `finish(panels, row, rows, sums, fetch)` for the parts of a tile, rows counted within the tile.
/// `finish` steps `fetch` for each row.
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
