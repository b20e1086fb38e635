// What runs for (instruction set, format, rows, shape): every choice that affects speed but no bit.
//
// All kernels of an op give the same bits (gemm.hpp), so the choice of kernel and tile size is a value, and
// only here. plan_defaults.cpp has the table of each instruction set; calibration (calibration.hpp) may
// replace entries by faster ones. Constants elsewhere are no choices: how many rows a kernel keeps in
// registers, how much of K in L1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/isa.hpp"
#include "kernels/packed_matrix.hpp"

namespace troupe::kernels {

/// Kinds of weights and converted rows: each has its own kernels.
enum class product_kind : std::uint8_t {
  f32,
  bf16,
  bf16_coded,
  int8,      ///< BF16 rows
  int4,      ///< BF16 rows; any groups
  int8_int8, ///< int8 weights, int8 rows
  int4_int8, ///< int4 weights, int8 rows
};

inline constexpr std::size_t num_product_kinds = 7;
inline constexpr std::array<product_kind, num_product_kinds> all_product_kinds{
    product_kind::f32,  product_kind::bf16,      product_kind::bf16_coded, product_kind::int8,
    product_kind::int4, product_kind::int8_int8, product_kind::int4_int8};

/// "f32", "bf16", "bf16_coded", "int8", "int4", "int8_int8" or "int4_int8".
const char* name_of(product_kind kind);
std::optional<product_kind> product_kind_from_name(std::string_view name);
product_kind kind_of(packed_format format, row_quant rows);

/// A way to multiply rows with packed panels. The first part of a name is the unit, which also determines the
/// layout of rows (`layout_of`).
enum class product_kernel : std::uint8_t {
  /// FP32 multiply-adds; weights are widened or unpacked in registers for each block of rows.
  fma,
  /// The same for few rows, with four runs of panels read side by side.
  fma_runs,
  /// The same; weights are widened or unpacked once for all rows of a tile, into L1.
  fma_widened,
  /// Dot products of BF16 pairs; quantized weights are converted to pairs first.
  dots,
  dots_runs,
  /// Tiles of a matrix unit, for up to 32 rows; all panels of a tile are streamed from memory.
  tiles_streamed,
  /// The same for more rows, part by part, while the next part is prefetched into L2. Coded weights are
  /// decoded beside the products for each part of the rows; quantized ones are converted to pairs first.
  tiles,
  /// Coded weights are decoded once for all rows of a tile.
  tiles_decoded,
  /// Dot products of bytes; the kernel chooses the order of reading.
  integers,
  /// The same in up to four streams side by side, each prefetched.
  integers_streams,
  /// The same with up to four panels side by side, prefetched in the order of addresses.
  integers_groups,
  /// The same for few rows, one panel after the other.
  integers_one_stream,
  integers_runs,
  /// int4 is converted to bytes once for all rows of a tile.
  integers_unpacked,
  /// Tiles of a matrix unit, with rows laid out as for dot products of bytes and panels in streams.
  integers_row_tiles,
  /// Rows in tiles; int8 panels directly from memory for up to 32 rows, or part by part; int4 unpacked once.
  integer_tiles_streamed,
  integer_tiles,
};

inline constexpr std::size_t num_product_kernels = 17;

const char* name_of(product_kernel kernel);
std::optional<product_kernel> product_kernel_from_name(std::string_view name);

/// The layout of a product's rows for a kernel.
row_layout layout_of(product_kernel kernel, product_kind kind);

/// Whether the kernel reads four runs of panels side by side.
bool reads_runs(product_kernel kernel);

/// Most rows (of a tile) that a table's kernel takes with such weights; 0: it does not take them.
std::size_t most_rows_of(const kernel_table& table, product_kernel kernel, product_kind kind);

inline constexpr std::size_t any_number = ~std::size_t{0};

/// The choice for up to N rows and inputs.
struct product_regime {
  /// Of the whole product.
  std::size_t most_rows = any_number;
  /// K of the weights.
  std::size_t most_inputs = any_number;
  isa set = isa::portable;
  product_kernel kernel = product_kernel::fma;

  /// Most rows of a tile, the work that a thread takes at a time; larger products are split evenly. With
  /// `tile_row_bytes`, on a matrix unit, as many rows as have that many bytes: they stay in L2 while panels
  /// pass.
  std::size_t tile_rows = 192; // × 256 of K × 4 bytes = 192 KiB of L2
  std::size_t tile_row_bytes = 0;
  /// Panels of a tile, a power of two, so that halves hold whole pairs of gate and up. Doubled while the tile
  /// has at most `tile_bytes` of weights or, up to 16, `tile_sums` sums.
  std::size_t tile_panels = 8;
  std::size_t tile_bytes = 0;
  std::size_t tile_sums = 0;
  /// The panels are halved until each thread has this many tiles.
  std::size_t tiles_per_thread = 8;

  /// On a matrix unit: rows and panels that are multiplied at a time, and the most bytes of these panels; 0:
  /// all of the tile.
  std::size_t part_rows = 0;
  std::size_t part_panels = 0;
  std::size_t part_bytes = 0;

  /// K of a panel that is read before the next panel's turn, for FP32, and for quantized weights with BF16
  /// rows.
  std::size_t turn_inputs = 256;
  /// Prefetch distance of all streams together.
  std::size_t bytes_ahead = 8192;

  friend bool operator==(const product_regime&, const product_regime&) = default;
};

/// Attention of a row block (`attention_block`).
struct attention_plan {
  isa set = isa::portable;
  /// More query rows than this are columns of a product with the keys, if the set has that.
  std::size_t row_kernel_rows = 16;
  /// Query rows of a block: enough to use each key tile often, few enough to keep queries and sums in L1 and
  /// L2. Kernels that transpose keys and values do so for every block: they use up to `most_block_rows`, as
  /// long as every thread gets `blocks_per_thread`.
  std::size_t block_rows = 64;
  std::size_t most_block_rows = 64;
  std::size_t blocks_per_thread = 4;
  /// Fewest multiply-adds for other threads: waking them costs some 5 µs of one core. As many as a head of KV
  /// waits for memory.
  std::size_t least_work = 200'000;
  std::size_t work_of_head = 40'000;

  friend bool operator==(const attention_plan&, const attention_plan&) = default;
};

/// All choices of a process.
struct kernel_plan {
  /// The set for ops other than products and attention.
  isa set = isa::portable;
  /// Of each kind, in order: the first that fits is used. The last fits all.
  std::array<std::vector<product_regime>, num_product_kinds> products{};
  attention_plan attention{};
  /// Fewest elements for which ops on rows use other threads; also for packing rows.
  std::size_t least_elements = 16384;
  std::size_t least_packed_rows = 9;
  /// Whether BF16 weights of a checkpoint are kept with coded exponents (coded_bf16.hpp).
  bool coded_weights = false;
  /// Whether packed weights are copied out of their file at start.
  bool copied_weights = false;

  const product_regime& regime(product_kind kind, std::size_t rows, std::size_t inputs) const;
  const product_regime& regime(const packed_matrix& weight, std::size_t rows) const;

  std::vector<product_regime>& of(product_kind kind) { return products[static_cast<std::size_t>(kind)]; }

  const std::vector<product_regime>& of(product_kind kind) const {
    return products[static_cast<std::size_t>(kind)];
  }

  /// The sets that the plan names, each once.
  std::vector<isa> sets() const;

  friend bool operator==(const kernel_plan&, const kernel_plan&) = default;
};

/// The plan measured by hand for an instruction set (docs/kernels/).
kernel_plan default_plan(const kernel_table& table);

/// @throws std::runtime_error  `set` is not supported here
kernel_plan default_plan(isa set);

/// The default regime of `kind` with sizes that suit the kernel: those of the set's `default_plan` for it or
/// a similar kernel.
product_regime default_regime(const kernel_table& table, product_kernel kernel, product_kind kind,
                              std::size_t most_rows);

/// Why a plan cannot run on these tables (null: missing), as the end of a sentence; empty if it can.
std::optional<std::string> problem_of(const kernel_plan& plan,
                                      const std::array<const kernel_table*, num_isas>& tables);

/// Whether dot products of BF16 pay here: Intel's do half of what FMAs do, AMD's twice as much. The order of
/// `supported_isas` follows from it.
bool has_fast_dot_products();

} // namespace troupe::kernels
