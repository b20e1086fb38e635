// What runs for (instruction set, format, rows, shape): every choice that changes speed and no bit.
//
// All kernels of an op give the same bits (gemm.hpp), so which of them runs, on tiles of which size, is a
// value here and nowhere else. plan_defaults.cpp has the table of each instruction set; a calibration
// (calibration.hpp) may put something faster in its place. What is not here is no choice: how many rows a
// kernel keeps in registers, how much of K in L1.
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

/// Weights, and what rows become before they meet them: each has kernels of its own.
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

/// A way to multiply rows with packed panels. The first part of a name is the unit, which also says how rows
/// lie in memory (`layout_of`).
enum class product_kernel : std::uint8_t {
  /// FP32 multiply-adds; weights are widened or unpacked in registers, again for each block of rows.
  fma,
  /// The same for few rows, which read four runs of panels side by side.
  fma_runs,
  /// The same; weights are widened or unpacked once for all rows of a tile, into L1.
  fma_widened,
  /// Dot products of BF16 pairs; quantized weights become pairs first.
  dots,
  dots_runs,
  /// Tiles of a matrix unit; up to 32 rows, which meet all panels of a tile as these come from memory.
  tiles_streamed,
  /// More rows, part by part, while the next part comes into L2. Coded weights are decoded beside the
  /// products, again for each part of the rows; quantized ones become pairs first.
  tiles,
  /// Coded weights are decoded once for all rows of a tile.
  tiles_decoded,
  /// Dot products of bytes; the order of reading is the kernel's own.
  integers,
  /// In up to four streams side by side, each fetched ahead.
  integers_streams,
  /// Up to four panels side by side, fetched in the order of addresses.
  integers_groups,
  /// Few rows, one panel after the other.
  integers_one_stream,
  integers_runs,
  /// int4 becomes bytes once for all rows of a tile.
  integers_unpacked,
  /// Tiles of a matrix unit, whose rows lie as for dot products of bytes, panels in streams.
  integers_row_tiles,
  /// Rows in tiles; int8 panels straight from memory for up to 32 rows, or part by part, int4 unpacked once.
  integer_tiles_streamed,
  integer_tiles,
};

inline constexpr std::size_t num_product_kernels = 17;

const char* name_of(product_kernel kernel);
std::optional<product_kernel> product_kernel_from_name(std::string_view name);

/// How the rows of a product lie for a kernel.
row_layout layout_of(product_kernel kernel, product_kind kind);

/// Whether the kernel reads four runs of panels side by side.
bool reads_runs(product_kernel kernel);

/// Most rows (of a tile) that the kernel of a table takes with such weights; 0: it does not take them at all.
std::size_t most_rows_of(const kernel_table& table, product_kernel kernel, product_kind kind);

inline constexpr std::size_t any_number = ~std::size_t{0};

/// What runs for up to so many rows and inputs.
struct product_regime {
  /// Of the whole product.
  std::size_t most_rows = any_number;
  /// K of the weights.
  std::size_t most_inputs = any_number;
  isa set = isa::portable;
  product_kernel kernel = product_kernel::fma;

  /// Most rows of a tile, which is what a thread takes at a time; products of more are split evenly. With
  /// `tile_row_bytes`, on a matrix unit, as many as have so many bytes: they stay in L2 while panels pass.
  std::size_t tile_rows = 192; // × 256 of K × 4 bytes = 192 KiB of L2
  std::size_t tile_row_bytes = 0;
  /// Panels of a tile, a power of two, so that halves hold whole pairs of gate and up; twice as many, and
  /// again, as long as they have no more than `tile_bytes` of weights, or, up to 16, `tile_sums` sums.
  std::size_t tile_panels = 8;
  std::size_t tile_bytes = 0;
  std::size_t tile_sums = 0;
  /// Half as many panels, and again, until each thread has so many tiles.
  std::size_t tiles_per_thread = 8;

  /// On a matrix unit: rows and panels that are multiplied at a time, and bytes that these panels have at
  /// most; 0: all of the tile.
  std::size_t part_rows = 0;
  std::size_t part_panels = 0;
  std::size_t part_bytes = 0;

  /// K of a panel that is read before the next panel's turn: FP32, and quantized weights with BF16 rows.
  std::size_t turn_inputs = 256;
  /// How far ahead streams are fetched, all together.
  std::size_t bytes_ahead = 8192;

  friend bool operator==(const product_regime&, const product_regime&) = default;
};

/// Attention of a row block (`attention_block`).
struct attention_plan {
  isa set = isa::portable;
  /// More query rows than these are columns of a product with the keys, where the set has that.
  std::size_t row_kernel_rows = 16;
  /// Query rows of a block: enough to use each key tile often, few enough that queries and sums stay in L1
  /// and L2. Who transposes keys and values does so again for every block: up to `most_block_rows` as long as
  /// every thread finds `blocks_per_thread`.
  std::size_t block_rows = 64;
  std::size_t most_block_rows = 64;
  std::size_t blocks_per_thread = 4;
  /// Multiply-adds below which waking other threads costs more than it saves, some 5 µs of one core; and as
  /// many as a head of KV waits for memory.
  std::size_t least_work = 200'000;
  std::size_t work_of_head = 40'000;

  friend bool operator==(const attention_plan&, const attention_plan&) = default;
};

/// All choices of a process.
struct kernel_plan {
  /// Whose kernels do what is neither a product nor attention.
  isa set = isa::portable;
  /// Of each kind, in the order in which they are looked at: the first that fits runs. The last fits all.
  std::array<std::vector<product_regime>, num_product_kinds> products{};
  attention_plan attention{};
  /// Elements below which ops that go row by row stay on the calling thread, and rows that it packs alone.
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

  /// The sets whose kernels it names, each once.
  std::vector<isa> sets() const;

  friend bool operator==(const kernel_plan&, const kernel_plan&) = default;
};

/// What was measured by hand for an instruction set, once (docs/kernels/).
kernel_plan default_plan(const kernel_table& table);

/// @errors std::runtime_error when `set` is not supported here
kernel_plan default_plan(isa set);

/// The default, among `kind`'s, with sizes that suit the kernel: what `default_plan` of that set has for it,
/// or for its like.
product_regime default_regime(const kernel_table& table, product_kernel kernel, product_kind kind,
                              std::size_t most_rows);

/// Why a plan cannot run on these tables (null: not there), as a sentence's end; nothing where it can.
std::optional<std::string> problem_of(const kernel_plan& plan,
                                      const std::array<const kernel_table*, num_isas>& tables);

/// Whether dot products of BF16 are worth having here: Intel's do half of what FMAs do, AMD's twice as much.
/// The order in which `supported_isas` lists sets follows from it.
bool has_fast_dot_products();

} // namespace troupe::kernels
