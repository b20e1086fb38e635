#include "kernels/embedding.hpp"

#include "kernels/cpu/rows/row_ranges.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels {

void embed(context& ctx, const_tensor_view table, std::span<const std::uint32_t> tokens, tensor_view output,
           float scale, const float* row_scales) {
  expect((table.type == dtype::int8) == (row_scales != nullptr), "embed: int8 rows come with scales");
  expect(output.rows == tokens.size() && output.cols == table.cols, "embed: output is not [tokens, hidden]");
  for (const std::uint32_t token : tokens)
    expect(token < table.rows, "embed: a token id is outside the table");
  const kernel_table& kernels = ctx.table();
  cpu::over_row_ranges(ctx, tokens.size(), table.cols, [&](std::size_t r) {
    if (table.type != dtype::f16 && table.type != dtype::int8) {
      kernels.scale_row(table.row(tokens[r]), table.type, scale, table.cols, output.row(r), output.type);
      return;
    }
    for (std::size_t i = 0; i < table.cols; ++i) {
      const float value =
          row_scales != nullptr
              ? static_cast<float>(table.row_as<std::int8_t>(tokens[r])[i]) * (row_scales[tokens[r]] * scale)
              : half_to_float(table.row_as<std::uint16_t>(tokens[r])[i]) * scale;
      if (output.type == dtype::f32)
        output.row_as<float>(r)[i] = value;
      else
        output.row_as<bfloat16>(r)[i] = to_bfloat16(value);
    }
  });
}

void add_positions(context& ctx, const_tensor_view table, std::span<const std::uint32_t> positions,
                   tensor_view rows) {
  expect(table.type == dtype::f32 && rows.type == dtype::f32, "add_positions: not f32");
  expect(rows.rows == positions.size() && rows.cols == table.cols,
         "add_positions: rows are not [positions, hidden]");
  for (const std::uint32_t position : positions)
    expect(position < table.rows, "add_positions: a position is outside the table");
  cpu::over_row_ranges(ctx, rows.rows, rows.cols, [&](std::size_t r) {
    ctx.table().add_scaled_row(table.row(positions[r]), table.type, 1.0F, rows.cols, rows.row_as<float>(r));
  });
}

} // namespace troupe::kernels
