#include "kernels/embedding.hpp"

#include "kernels/cpu/kernel_table.hpp"
#include "kernels/cpu/row_ranges.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels {

void embed(context& ctx, const_tensor_view table, std::span<const std::uint32_t> tokens, tensor_view output,
           float scale) {
  expect(output.rows == tokens.size() && output.cols == table.cols, "embed: output is not [tokens, hidden]");
  for (const std::uint32_t token : tokens)
    expect(token < table.rows, "embed: a token id is outside the table");
  const kernel_table& kernels = ctx.table();
  cpu::over_row_ranges(ctx, tokens.size(), table.cols, [&](std::size_t r) {
    if (table.type != dtype::f16) {
      kernels.scale_row(table.row(tokens[r]), table.type, scale, table.cols, output.row(r), output.type);
      return;
    }
    const auto* from = table.row_as<std::uint16_t>(tokens[r]);
    for (std::size_t i = 0; i < table.cols; ++i) {
      const float value = half_to_float(from[i]) * scale;
      if (output.type == dtype::f32)
        output.row_as<float>(r)[i] = value;
      else
        output.row_as<bfloat16>(r)[i] = to_bfloat16(value);
    }
  });
}

} // namespace troupe::kernels
