#include "kernels/rope.hpp"

#include "kernels/cpu/rows/row_ranges.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/error.hpp"
#include "kernels/portable_math.hpp"

namespace troupe::kernels {

rope_table::rope_table(const rope_config& config, std::size_t positions)
    : positions_(positions), pairs_(config.rotary_dim / 2) {
  const std::vector<double> frequencies = rope_inverse_frequencies(config);
  const double factor = rope_attention_factor(config);
  cos_.resize(positions * pairs_);
  sin_.resize(positions * pairs_);
  for (std::size_t p = 0; p < positions; ++p)
    for (std::size_t i = 0; i < pairs_; ++i) {
      const sine_cosine value = portable_sin_cos(static_cast<double>(p) * frequencies[i]);
      cos_[p * pairs_ + i] = static_cast<float>(value.cosine * factor);
      sin_[p * pairs_ + i] = static_cast<float>(value.sine * factor);
    }
}

void rope(context& ctx, const rope_args& args) {
  expect(args.rows.type == dtype::f32, "rope: rows are not f32");
  expect(args.rows.cols == args.heads * args.head_dim, "rope: columns are not heads · head_dim");
  expect(args.positions.size() == args.rows.rows, "rope: one position per row is needed");
  expect(args.table != nullptr && args.first + args.table->rotary_dim() <= args.head_dim,
         "rope: the table rotates more than a head");
  for (const std::uint32_t position : args.positions)
    expect(position < args.table->positions(), "rope: a position is outside the table");
  const kernel_table& table = ctx.table();
  const auto rotate = args.style == rope_style::rotate_half ? table.rope_half : table.rope_interleaved;
  cpu::over_row_ranges(ctx, args.rows.rows, args.rows.cols, [&](std::size_t r) {
    const float* cos = args.table->cos_at(args.positions[r]);
    const float* sin = args.table->sin_at(args.positions[r]);
    for (std::size_t h = 0; h < args.heads; ++h)
      rotate(args.rows.row_as<float>(r) + h * args.head_dim + args.first, cos, sin,
             args.table->rotary_dim() / 2);
  });
}

} // namespace troupe::kernels
