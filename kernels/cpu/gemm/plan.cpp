#include "kernels/cpu/gemm/plan.hpp"

#include <algorithm>
#include <utility>

namespace troupe::kernels {

namespace {

using kernel = product_kernel;

constexpr std::array<std::pair<kernel, const char*>, num_product_kernels> kernel_names{{
    {kernel::fma, "fma"},
    {kernel::fma_runs, "fma_runs"},
    {kernel::fma_widened, "fma_widened"},
    {kernel::dots, "dots"},
    {kernel::dots_runs, "dots_runs"},
    {kernel::tiles_streamed, "tiles_streamed"},
    {kernel::tiles, "tiles"},
    {kernel::tiles_decoded, "tiles_decoded"},
    {kernel::integers, "integers"},
    {kernel::integers_streams, "integers_streams"},
    {kernel::integers_groups, "integers_groups"},
    {kernel::integers_one_stream, "integers_one_stream"},
    {kernel::integers_runs, "integers_runs"},
    {kernel::integers_unpacked, "integers_unpacked"},
    {kernel::integers_row_tiles, "integers_row_tiles"},
    {kernel::integer_tiles_streamed, "integer_tiles_streamed"},
    {kernel::integer_tiles, "integer_tiles"},
}};

constexpr std::size_t streamed_tile_rows = 32; // of a matrix unit's kernels for streamed weights
constexpr std::size_t most_part_rows = 96;     // of a matrix unit's kernels for coded weights
constexpr std::size_t most_tile_panels = 256;

bool has_int8_rows(product_kind kind) {
  return kind == product_kind::int8_int8 || kind == product_kind::int4_int8;
}

bool is_power_of_two(std::size_t value) {
  return value != 0 && (value & (value - 1)) == 0;
}

std::optional<std::string> problem_of(const product_regime& r, product_kind kind, const kernel_table& table) {
  const std::string where = std::string(name_of(kind)) + ", " + name_of(r.set) + " " + name_of(r.kernel);
  const std::size_t most = most_rows_of(table, r.kernel, kind);
  if (most == 0)
    return where + ": there is no such kernel";
  const bool in_parts =
      r.kernel == kernel::tiles || r.kernel == kernel::tiles_decoded || r.kernel == kernel::integer_tiles;
  if (r.most_rows == 0 || r.most_rows > most)
    return where + ": rows are not 1 to " + std::to_string(most);
  if (r.tile_rows == 0 || r.tile_rows > 1024 || r.tile_row_bytes > (std::size_t{1} << 26))
    return where + ": rows of a tile are not 1 to 1024";
  const row_layout layout = layout_of(r.kernel, kind);
  const bool in_tiles = layout == row_layout::bf16_tiles || layout == row_layout::int8_tiles;
  if (in_tiles ? r.tile_rows % 32 != 0 : r.tile_row_bytes != 0)
    return where + ": rows of a tile are for a matrix unit where there is none, or are not a multiple of 32";
  if (!is_power_of_two(r.tile_panels) || r.tile_panels > most_tile_panels
      || r.tile_panels < (reads_runs(r.kernel) ? 2 * panel_runs : 2))
    return where + ": panels of a tile are not a power of two from " + (reads_runs(r.kernel) ? "8" : "2")
           + " to 256";
  if (r.tile_bytes > (std::size_t{1} << 26) || r.tile_sums > (std::size_t{1} << 22))
    return where + ": a tile is larger than 64 MiB";
  if (r.tiles_per_thread == 0 || r.tiles_per_thread > 1024)
    return where + ": tiles of a thread are not 1 to 1024";
  if (r.part_rows % 32 != 0 || r.part_rows > most_part_rows
      || (r.part_rows == 0 && kind == product_kind::bf16_coded && in_parts))
    return where + ": rows of a part are not 32, 64 or 96";
  if (r.part_panels != 0 && (!is_power_of_two(r.part_panels) || r.part_panels < 2 || r.part_panels > 64))
    return where + ": panels of a part are not a power of two from 2 to 64";
  if (in_parts && r.part_panels == 0)
    return where + ": a part has no panels";
  if (r.turn_inputs == 0 || r.turn_inputs % 32 != 0)
    if (kind != product_kind::f32 || r.turn_inputs == 0)
      return where + ": inputs of a turn are no multiple of 32";
  if (r.turn_inputs > (r.kernel == kernel::fma_widened ? 256U : 65536U))
    return where + ": too many inputs of a turn";
  if (r.bytes_ahead % 1024 != 0 || r.bytes_ahead > (std::size_t{1} << 20))
    return where + ": bytes ahead are no multiple of 1024 up to 1 MiB";
  return std::nullopt;
}

} // namespace

const char* name_of(product_kind kind) {
  switch (kind) {
  case product_kind::f32:
    return "f32";
  case product_kind::bf16:
    return "bf16";
  case product_kind::bf16_coded:
    return "bf16_coded";
  case product_kind::int8:
    return "int8";
  case product_kind::int4:
    return "int4";
  case product_kind::int8_int8:
    return "int8_int8";
  case product_kind::int4_int8:
    return "int4_int8";
  }
  return "?";
}

std::optional<product_kind> product_kind_from_name(std::string_view name) {
  for (const product_kind kind : all_product_kinds)
    if (name == name_of(kind))
      return kind;
  return std::nullopt;
}

product_kind kind_of(packed_format format, row_quant rows) {
  switch (format) {
  case packed_format::f32_panel:
    return product_kind::f32;
  case packed_format::bf16_pair:
    return product_kind::bf16;
  case packed_format::bf16_coded:
    return product_kind::bf16_coded;
  case packed_format::int8_channel:
    return rows == row_quant::int8 ? product_kind::int8_int8 : product_kind::int8;
  default:
    return rows == row_quant::int8 ? product_kind::int4_int8 : product_kind::int4;
  }
}

const char* name_of(product_kernel kernel) {
  return kernel_names.at(static_cast<std::size_t>(kernel)).second;
}

std::optional<product_kernel> product_kernel_from_name(std::string_view name) {
  for (const auto& [kernel, kernel_name] : kernel_names)
    if (name == kernel_name)
      return kernel;
  return std::nullopt;
}

row_layout layout_of(product_kernel kernel, product_kind kind) {
  switch (kernel) {
  case kernel::fma:
  case kernel::fma_runs:
  case kernel::fma_widened:
    return kind == product_kind::f32 ? row_layout::f32 : row_layout::bf16_split;
  case kernel::dots:
  case kernel::dots_runs:
    return row_layout::bf16_dots;
  case kernel::tiles_streamed:
  case kernel::tiles:
  case kernel::tiles_decoded:
    return row_layout::bf16_tiles;
  case kernel::integer_tiles_streamed:
  case kernel::integer_tiles:
    return row_layout::int8_tiles;
  default:
    return row_layout::int8;
  }
}

bool reads_runs(product_kernel kernel) {
  return kernel == kernel::fma_runs || kernel == kernel::dots_runs || kernel == kernel::integers_runs;
}

std::size_t most_rows_of(const kernel_table& t, product_kernel kernel, product_kind kind) {
  const auto any_if = [](bool there) { return there ? any_number : 0; };
  const bool bf16 = kind == product_kind::bf16 || kind == product_kind::bf16_coded;
  const bool coded = kind == product_kind::bf16_coded;
  const bool unpacked = kind == product_kind::int8 || kind == product_kind::int4; // for BF16 rows
  const bool int8 = kind == product_kind::int8_int8;
  switch (kernel) {
  case kernel::fma:
    return any_if(!has_int8_rows(kind));
  case kernel::fma_runs:
    return kind == product_kind::bf16 && t.bf16_runs != nullptr ? t.bf16_run_rows : 0;
  case kernel::fma_widened:
    return any_if(kind == product_kind::bf16 || unpacked);
  case kernel::dots:
    return any_if(t.bf16_dots != nullptr && (bf16 || unpacked));
  case kernel::dots_runs:
    return bf16 && t.bf16_dot_runs != nullptr ? t.dot_run_rows : 0;
  case kernel::tiles_streamed:
    return t.bf16_tiles != nullptr && (bf16 || unpacked) ? streamed_tile_rows : 0;
  case kernel::tiles:
    return any_if(t.bf16_tiles != nullptr && (bf16 || unpacked));
  case kernel::tiles_decoded:
    return any_if(t.bf16_tiles != nullptr && coded);
  default:
    break;
  }
  if (!has_int8_rows(kind))
    return 0;
  switch (kernel) {
  case kernel::integers:
    return any_number;
  case kernel::integers_streams:
    return any_if(t.quant.integer_streams != nullptr);
  case kernel::integers_groups:
    return any_if(t.quant.integer_groups != nullptr);
  case kernel::integers_one_stream:
    return int8 ? t.quant.int8_stream_rows : t.quant.int4_stream_rows;
  case kernel::integers_runs:
    return int8 ? t.quant.int8_run_rows : t.quant.int4_run_rows;
  case kernel::integers_unpacked:
    return any_if(t.quant.integer_unpacked != nullptr && !int8);
  case kernel::integers_row_tiles:
    return any_if(t.quant.integer_row_tiles != nullptr);
  case kernel::integer_tiles_streamed:
    return t.int8_tiles != nullptr && int8 ? streamed_tile_rows : 0;
  case kernel::integer_tiles:
    return any_if(t.int8_tiles != nullptr);
  default:
    return 0;
  }
}

const product_regime& kernel_plan::regime(product_kind kind, std::size_t rows, std::size_t inputs) const {
  const std::vector<product_regime>& regimes = of(kind);
  std::size_t i = 0;
  while (i + 1 < regimes.size() && (rows > regimes[i].most_rows || inputs > regimes[i].most_inputs))
    ++i;
  return regimes[i];
}

const product_regime& kernel_plan::regime(const packed_matrix& weight, std::size_t rows) const {
  return regime(kind_of(weight.format(), weight.rows()), rows, weight.inputs());
}

std::vector<isa> kernel_plan::sets() const {
  std::vector<isa> found{set};
  const auto add = [&](isa other) {
    if (std::find(found.begin(), found.end(), other) == found.end())
      found.push_back(other);
  };
  add(attention.set);
  for (const auto& regimes : products)
    for (const product_regime& r : regimes)
      add(r.set);
  return found;
}

std::optional<std::string> problem_of(const kernel_plan& plan,
                                      const std::array<const kernel_table*, num_isas>& tables) {
  const auto table = [&](isa set) { return tables.at(static_cast<std::size_t>(set)); };
  for (const isa set : plan.sets())
    if (table(set) == nullptr)
      return std::string("instruction set ") + name_of(set) + " is not there";
  for (const product_kind kind : all_product_kinds) {
    const auto& regimes = plan.of(kind);
    if (regimes.empty() || regimes.back().most_rows != any_number || regimes.back().most_inputs != any_number)
      return std::string(name_of(kind)) + ": the last entry is not for any number of rows and inputs";
    for (const product_regime& r : regimes)
      if (auto problem = problem_of(r, kind, *table(r.set)))
        return problem;
  }
  const attention_plan& a = plan.attention;
  if (a.block_rows == 0 || a.block_rows > 1024 || a.most_block_rows > 1024 || a.blocks_per_thread == 0)
    return "attention: rows of a block are not 1 to 1024";
  return std::nullopt;
}

} // namespace troupe::kernels
