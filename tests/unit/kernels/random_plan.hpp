// Random plans: any kernel for any number of rows, tiles of any size. All give the same bits.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/gemm/plan.hpp"

namespace troupe::kernels {

/// Draws the choices of a plan. The same on every machine with the same tables.
class plan_drawer {
 public:
  /// @param tables  their kernels are mixed
  plan_drawer(std::vector<const kernel_table*> tables, std::uint32_t seed)
      : tables_(std::move(tables)), random_(seed) {}

  kernel_plan draw() {
    kernel_plan plan = default_plan(*tables_[below(tables_.size())]);
    for (std::size_t kind = 0; kind < num_product_kinds; ++kind) {
      auto& regimes = plan.products.at(kind);
      regimes.clear();
      for (std::size_t rows = 1 + below(4); rows < 200; rows += 1 + below(40))
        regimes.push_back(draw_regime(static_cast<product_kind>(kind), rows));
      regimes.push_back(draw_regime(static_cast<product_kind>(kind), any_number));
    }
    plan.attention.set = tables_[below(tables_.size())]->set;
    plan.attention.row_kernel_rows = below(40);
    plan.attention.block_rows = 1 + below(100);
    plan.attention.most_block_rows = 1 + below(256);
    plan.attention.blocks_per_thread = 1 + below(4);
    plan.attention.least_work = below(2) * 200'000;
    plan.least_elements = below(2) * 16384;
    plan.least_packed_rows = below(20);
    plan.coded_weights = below(2) == 0;
    return plan;
  }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }

  std::size_t one_of(std::initializer_list<std::size_t> values) {
    return values.begin()[below(values.size())];
  }

  product_regime draw_regime(product_kind kind, std::size_t rows) {
    for (;;) {
      const kernel_table& table = *tables_[below(tables_.size())];
      const auto kernel = static_cast<product_kernel>(below(num_product_kernels));
      if (most_rows_of(table, kernel, kind) < rows)
        continue;
      product_regime r = default_regime(table, kernel, kind, rows);
      if (rows != any_number && below(4) == 0)
        r.most_inputs = 64 + below(100);
      const row_layout layout = layout_of(kernel, kind);
      if (layout == row_layout::bf16_tiles || layout == row_layout::int8_tiles) {
        r.tile_rows = 32 * (1 + below(6));
        r.tile_row_bytes = one_of({0, 1 << 14, 1 << 19});
      } else {
        r.tile_rows = 1 + below(200);
      }
      r.tile_panels = reads_runs(kernel) ? one_of({8, 16}) : one_of({2, 4, 8, 16});
      r.tile_bytes = one_of({0, 1 << 14, 1 << 20});
      r.tile_sums = one_of({0, 1 << 12, 1 << 16});
      r.tiles_per_thread = 1 + below(10);
      if (r.part_panels != 0)
        r.part_panels = one_of({2, 4, 8, 16});
      if (r.part_rows != 0)
        r.part_rows = one_of({32, 64, 96});
      r.part_bytes = one_of({0, 1 << 12, 1 << 18});
      r.turn_inputs = 32 * (1 + below(8));
      r.bytes_ahead = 1024 * below(20);
      return r;
    }
  }

  std::vector<const kernel_table*> tables_;
  std::mt19937 random_;
};

} // namespace troupe::kernels
