#include <vector>

#include "kernels/cuda/bits.hpp"
#include "kernels/cuda/emulated_stream.hpp"
#include "kernels/cuda/many_rows.hpp"

namespace troupe::kernels::cuda {

namespace {

void multiply_plainly(const many_rows_args& args, const row_group& group, bool add) {
  for (std::size_t r = group.first_row; r < group.first_row + group.rows; ++r)
    for (std::size_t n = 0; n < args.outputs; ++n) {
      float sum = 0.0F;
      for (std::size_t k = 0; k < args.inputs; ++k)
        sum += to_float(args.input[r * args.inputs + k]) * to_float(group.weights[n * args.inputs + k]);
      const std::size_t at = r * args.outputs + n;
      if (args.output_type == dtype::bf16)
        static_cast<bfloat16*>(args.output)[at] = round_bf16(sum);
      else
        static_cast<float*>(args.output)[at] = add ? static_cast<float*>(args.output)[at] + sum : sum;
    }
}

} // namespace

struct many_rows::state {
  std::size_t most_groups;
};

many_rows::many_rows(std::size_t most_groups) : state_(std::make_unique<state>(state{most_groups})) {}

many_rows::~many_rows() = default;

void many_rows::multiply(const stream& on, const many_rows_args& args, const bfloat16* weights,
                         std::size_t rows, bool add) {
  static_cast<emulated_stream*>(on.native())->work.emplace_back([=] {
    multiply_plainly(args, {weights, 0, rows}, add);
  });
}

void many_rows::multiply_groups(const stream& on, const many_rows_args& args,
                                std::span<const row_group> groups) {
  if (groups.size() > state_->most_groups)
    throw device_error("multiply groups of rows", "more groups than there is room for");
  static_cast<emulated_stream*>(on.native())
      ->work.emplace_back([args, all = std::vector(groups.begin(), groups.end())] {
        for (const row_group& group : all)
          multiply_plainly(args, group, false);
      });
}

} // namespace troupe::kernels::cuda
