// The default plan of each instruction set: which kernel runs for which weights, rows and K, on tiles of
// which size, as measured by hand (docs/kernels/). It affects only speed.
#include <vector>

#include "kernels/cpu/gemm/plan.hpp"

namespace troupe::kernels {

namespace {

using kernel = product_kernel;

bool is_quantized(product_kind kind) {
  return kind >= product_kind::int8;
}

// Up to this many rows are limited by memory on vector units: panels are read in short turns, four side by
// side, and tiles are small.
constexpr std::size_t few_rows = 12;

/// Sizes that suit a kernel with `most_rows`.
void set_sizes(product_regime& r, product_kind kind) {
  switch (r.kernel) {
  case kernel::fma:
  case kernel::fma_widened:
    r.tile_panels = r.most_rows <= few_rows ? 4 : 8;
    if (kind == product_kind::f32 && r.most_rows <= few_rows)
      r.turn_inputs = 16;
    else if (r.kernel == kernel::fma && is_quantized(kind))
      r.turn_inputs = kind == product_kind::int8 ? 64 : 128; // 1 KiB
    break;
  case kernel::dots:
    r.tile_panels = r.most_rows <= few_rows ? 4 : 8;
    break;
  case kernel::fma_runs:
  case kernel::dots_runs:
  case kernel::integers_runs:
  case kernel::integers:
  case kernel::integers_groups:
  case kernel::integers_one_stream:
    break;
  case kernel::integers_unpacked:
    if (r.set == isa::avx512_bf16)
      break;
    [[fallthrough]];
  case kernel::integers_streams:
  case kernel::integers_row_tiles:
    // At the start of a tile nothing has been prefetched, so tiles are large.
    r.tile_panels = 4;
    r.tile_bytes = std::size_t{512} << 10;
    break;
  case kernel::tiles_streamed:
  case kernel::integer_tiles_streamed:
    if (r.most_rows <= 16) {
      r.tile_panels = 4;
      r.tile_bytes = std::size_t{512} << 10;
    } else {
      r.tile_sums = std::size_t{64} * 1024;
    }
    break;
  case kernel::tiles:
  case kernel::tiles_decoded:
  case kernel::integer_tiles:
    r.tile_row_bytes = std::size_t{512} << 10;
    r.tile_sums = std::size_t{64} * 1024;
    if (kind == product_kind::int8 || kind == product_kind::int4) {
      r.part_panels = 4; // weights that are unpacked for BF16 rows are unpacked again for every part
    } else {
      // At most 48 KiB of sums. With fewer panels rows are read from L2 more often, with more it was no
      // faster; fewer of long panels, since the next ones lie in L2 beside them.
      r.part_rows = 96;
      r.part_panels = 8;
      r.part_bytes = std::size_t{256} << 10;
    }
    break;
  }
}

// If few rows read panels as streams, tiles are large and few.
std::size_t tiles_per_thread(isa set) {
  return set == isa::avx512 || set == isa::amx ? 2 : 8;
}

/// A regime: the kernel for up to N rows and inputs (K). The lines of each kind of weights have rising rows;
/// the first that fits counts. `set_sizes` has the sizes.
struct line {
  std::size_t most_rows;
  kernel kind;
  std::size_t most_inputs = any_number;
};

using lines = std::vector<line>;

lines portable_lines(product_kind kind) {
  switch (kind) {
  case product_kind::f32:
  case product_kind::bf16_coded:
    return {{few_rows, kernel::fma}, {any_number, kernel::fma}};
  case product_kind::bf16:
    return {{few_rows, kernel::fma}, {18, kernel::fma}, {any_number, kernel::fma_widened}};
  case product_kind::int8:
  case product_kind::int4:
    return {{8, kernel::fma}, {few_rows, kernel::fma_widened}, {any_number, kernel::fma_widened}};
  case product_kind::int8_int8:
  case product_kind::int4_int8:
    break;
  }
  return {{any_number, kernel::integers}};
}

lines avx2_lines(product_kind kind) {
  switch (kind) {
  case product_kind::bf16:
    return {
        {4, kernel::fma_runs}, {few_rows, kernel::fma}, {31, kernel::fma}, {any_number, kernel::fma_widened}};
  case product_kind::int8_int8:
    return {{5, kernel::integers_runs}, {any_number, kernel::integers}};
  case product_kind::int4_int8:
    return {{2, kernel::integers_runs}, {any_number, kernel::integers}};
  default:
    return portable_lines(kind);
  }
}

lines avx512_lines(product_kind kind, bool has_vnni) {
  switch (kind) {
  case product_kind::bf16:
    return {{few_rows, kernel::fma}, {any_number, kernel::fma}};
  case product_kind::int8_int8:
    return {{any_number, has_vnni ? kernel::integers_streams : kernel::integers}};
  case product_kind::int4_int8:
    if (!has_vnni)
      return {{any_number, kernel::integers}};
    // At 16 rows unpacking once is as fast.
    return {{16, kernel::integers_streams}, {any_number, kernel::integers_unpacked}};
  default:
    return portable_lines(kind);
  }
}

// For AMD's processors.
lines avx512_bf16_lines(product_kind kind) {
  switch (kind) {
  // Fewer rows keep up with memory in one stream; with more, multiplying is the limit.
  case product_kind::bf16:
    return {{2, kernel::dots}, {12, kernel::dots_runs}, {any_number, kernel::dots}};
  case product_kind::bf16_coded: // a single stream would stand still during decoding
    return {{12, kernel::dots_runs}, {any_number, kernel::dots}};
  case product_kind::int8:
  case product_kind::int4:
    return {{4, kernel::fma}, {few_rows, kernel::dots}, {any_number, kernel::dots}};
  case product_kind::int8_int8: // more than three in one stream while L1 keeps them beside a panel
    return {{3, kernel::integers_one_stream},
            {5, kernel::integers_one_stream, 1365},
            {any_number, kernel::integers_groups}};
  case product_kind::int4_int8:
    return {{1, kernel::integers_one_stream},
            {16, kernel::integers_groups},
            {any_number, kernel::integers_unpacked}};
  default:
    return avx512_lines(kind, true);
  }
}

lines amx_lines(product_kind kind) {
  switch (kind) {
  case product_kind::bf16:
    return {{16, kernel::tiles_streamed}, {32, kernel::tiles_streamed}, {any_number, kernel::tiles}};
  case product_kind::bf16_coded:
    return {{16, kernel::tiles_streamed},
            {32, kernel::tiles_streamed},
            {96, kernel::tiles},
            {any_number, kernel::tiles_decoded}};
  // For few rows, unpacking into memory takes as long as their products in vector registers.
  case product_kind::int8:
  case product_kind::int4:
    return {{2, kernel::fma}, {16, kernel::tiles_streamed}, {any_number, kernel::tiles}};
  case product_kind::int8_int8:
    return {{6, kernel::integers_streams},
            {16, kernel::integers_row_tiles},
            {32, kernel::integer_tiles_streamed},
            {any_number, kernel::integer_tiles}};
  case product_kind::int4_int8:
    return {
        {5, kernel::integers_streams}, {32, kernel::integers_row_tiles}, {any_number, kernel::integer_tiles}};
  default:
    return avx512_lines(kind, true);
  }
}

lines lines_of(const kernel_table& table, product_kind kind) {
  switch (table.set) {
  case isa::portable:
    break;
  case isa::avx2:
    return avx2_lines(kind);
  case isa::avx512:
    return avx512_lines(kind, table.quant.integer_streams != nullptr);
  case isa::avx512_bf16:
    return avx512_bf16_lines(kind);
  case isa::amx:
    return amx_lines(kind);
  }
  return portable_lines(kind);
}

attention_plan attention_of(const kernel_table& table) {
  attention_plan plan;
  plan.set = table.set;
  if (table.attention_columns != nullptr)
    plan.most_block_rows = 256;
  return plan;
}

} // namespace

product_regime default_regime(const kernel_table& table, product_kernel kernel, product_kind kind,
                              std::size_t most_rows) {
  product_regime r;
  r.most_rows = most_rows;
  r.set = table.set;
  r.kernel = kernel;
  r.tiles_per_thread = tiles_per_thread(table.set);
  set_sizes(r, kind);
  return r;
}

kernel_plan default_plan(const kernel_table& table) {
  kernel_plan plan;
  plan.set = table.set;
  for (const product_kind kind : all_product_kinds)
    for (const line& l : lines_of(table, kind)) {
      plan.of(kind).push_back(default_regime(table, l.kind, kind, l.most_rows));
      plan.of(kind).back().most_inputs = l.most_inputs;
    }
  plan.attention = attention_of(table);
  plan.coded_weights = table.set == isa::avx512_bf16 || table.set == isa::amx;
  return plan;
}

kernel_plan default_plan(isa set) {
  return default_plan(table_of(set));
}

bool has_fast_dot_products() {
#if defined(TROUPE_X86_KERNELS)
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

} // namespace troupe::kernels
