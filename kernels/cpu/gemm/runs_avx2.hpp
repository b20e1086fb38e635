// Products of few rows on AVX2, which are limited by memory. Included only by isa_kernels.cpp, for AVX2.
//
// Panels of four runs far apart are read side by side, a short part of K of each in turn, while the following
// lines of all runs are prefetched in turn. Each run continues from tile to tile: if it began elsewhere every
// few panels, the processor would not prefetch there (docs/kernels/avx2.md).
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/fma_loops_avx2.hpp"
#include "kernels/cpu/gemm/int8/maddubs_avx2.hpp"
#include "kernels/cpu/prefetch/panel_runs.hpp"
#include "kernels/cpu/simd/row_blocks.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

// Rows whose sums fit into registers.
constexpr std::size_t bf16_run_rows = 4;
constexpr std::size_t int8_run_rows = 5;
constexpr std::size_t int4_run_rows = 2;

// Bytes of a part of one run: the next parts of all runs are in L1 before they are read.
constexpr std::size_t part_bytes(std::size_t rows) {
  return rows <= 2 ? 1024 : 2048;
}

/// All `Rows` rows of a product.
template <std::size_t Rows>
TROUPE_LOOP void avx2_bf16_runs(const panel_product& product) {
  const run_panels runs{product.panel,  product.run_stride, product.panel_stride, product.panels,
                        product.blocks, panel_block_bytes,  product.next};
  const panel_parts cut = runs.parts(part_bytes(Rows));
  for (std::size_t p = 0; p < runs.panels; ++p) {
    const std::byte* panel = runs.first + p * runs.panel_stride;
    const auto sums = [&](std::size_t run) { return product.c + (run * runs.panels + p) * Rows * 16; };
    over_parts(runs, cut, p, [&](const run_part& part) {
      const float* x = product.a + part.first * block_k;
      const std::byte* from = panel + part.first * panel_block_bytes;
      run_fetch fetch(part.coming, part.coming_stride);
      // With only one row, the sums of two panels fit into registers.
      constexpr std::size_t together = Rows == 1 ? 2 : 1;
      for (std::size_t run = 0; run < panel_runs; run += together)
        if constexpr (Rows == 1)
          avx2_together<1, 2>(x, 0, {from + run * runs.run_stride, from + (run + 1) * runs.run_stride},
                              {sums(run), sums(run + 1)}, fetch);
        else if constexpr (Rows > 2)
          avx2_packed<Rows>(x, product.a_stride, from + run * runs.run_stride, part.blocks, sums(run), fetch);
        else
          avx2_together<Rows, 1>(x, product.a_stride, {from + run * runs.run_stride}, {sums(run)}, fetch);
    });
  }
}

static void bf16_runs_avx2(const panel_product& product) {
  in_row_blocks<bf16_run_rows>(product.rows,
                               [&]<std::size_t Rows>(std::size_t) { avx2_bf16_runs<Rows>(product); });
}

/// The rows of an integer product, `stride` bytes apart, with K `inputs`.
struct rows_of_integers {
  const std::byte* a;
  std::size_t stride;
  std::size_t inputs;
};

/// All `Rows` rows of a product with int8 or with int4.
template <std::size_t Rows, bool Int8>
TROUPE_LOOP void avx2_integer_runs(const rows_of_integers& rows, const quant_panel& first,
                                   const run_panels& runs, float* c) {
  const panel_parts cut = runs.parts(part_bytes(Rows));
  for (std::size_t p = 0; p < runs.panels; ++p) {
    const auto panel = [&](std::size_t run) {
      return first.on(p * runs.panel_stride + run * runs.run_stride);
    };
    const auto sums = [&](std::size_t run) { return c + (run * runs.panels + p) * Rows * 16; };
    for (std::size_t run = 0; run < panel_runs; ++run)
      begin_sums<Rows>(rows.a, rows.stride, rows.inputs, first.format, sums(run));
    over_parts(runs, cut, p, [&](const run_part& part) {
      run_fetch fetch(part.coming, part.coming_stride, first.has_groups());
      const std::size_t k = part.first * block_k;
      for (std::size_t run = 0; run < panel_runs; ++run)
        if constexpr (Int8)
          avx2_int8_packed<Rows>(rows.a + int8_row_narrow(rows.inputs) + k, rows.stride,
                                 panel(run).weights + part.first * int8_block_bytes, part.blocks * block_k,
                                 sums(run), fetch);
        else
          avx2_int4_packed<Rows>(rows.a, rows.stride, rows.inputs, panel(run), k, part.blocks, sums(run),
                                 fetch);
    });
    for (std::size_t run = 0; run < panel_runs; ++run)
      finish_sums<Rows>(rows.a, rows.stride, rows.inputs, panel(run), sums(run));
  }
}

static void integer_runs_avx2(const std::byte* a, std::size_t a_stride, std::size_t rows,
                              const quant_panel& first, std::size_t panels, std::size_t run_stride,
                              const upcoming_panels& next, std::size_t k, float* c) {
  const bool int8 = first.format == packed_format::int8_channel;
  const rows_of_integers x{a, a_stride, k};
  const run_panels runs{first.weights,
                        run_stride,
                        first.stride,
                        panels,
                        (int8 ? int8_row_sums(k) : k + block_k - 1) / block_k,
                        int8 ? int8_block_bytes : int4_block_bytes,
                        next,
                        first.layout};
  in_row_blocks<int8_run_rows>(rows, [&]<std::size_t Rows>(std::size_t) {
    if (int8)
      avx2_integer_runs<Rows, true>(x, first, runs, c);
    else if constexpr (Rows <= int4_run_rows)
      avx2_integer_runs<Rows, false>(x, first, runs, c);
  });
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
