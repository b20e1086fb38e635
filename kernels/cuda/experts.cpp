#include "kernels/cuda/experts.hpp"

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

namespace {

std::size_t most_items_of(const expert_pass_limits& limits) {
  return limits.most_experts + limits.most_rows / most_few_rows + 1;
}

void check(const expert_pass_limits& limits, const expert_pass::arguments& args) {
  std::size_t rows = 0;
  const std::size_t matrices = args.experts.gated ? 2 : 1;
  for (const expert_rows& of : args.rows) {
    rows += of.rows;
    if (of.expert >= args.experts.second_on_host.size()
        || (of.expert + 1) * matrices > args.experts.first_on_host.size())
      throw kernel_error("cuda experts: an expert is not in the set");
  }
  if (rows > limits.most_rows || args.rows.size() > limits.most_experts)
    throw kernel_error("cuda experts: more rows or experts than the pass has room for");
  if (args.experts.hidden > limits.hidden || args.experts.ffn > limits.ffn)
    throw kernel_error("cuda experts: experts are larger than the pass has room for");
}

} // namespace

expert_pass::expert_pass(const expert_pass_limits& limits, std::unique_ptr<many_row_experts> many)
    : limits_(limits),
      host_items_(2 * most_items_of(limits) * sizeof(row_item)),
      items_(host_items_.size()),
      hidden_(limits.most_rows * limits.ffn * sizeof(bfloat16)),
      many_(std::move(many)) {}

void expert_pass::run(const stream& on, const arguments& args) {
  check(limits_, args);
  copied_.synchronize();
  // Items for `few_rows` from the front, whole experts for `many_row_experts` behind them.
  auto* few = host_items_.as<row_item>();
  std::size_t num_few = 0;
  std::size_t most_rows = 0;
  many_items_.clear();
  std::uint32_t row = 0;
  for (const expert_rows& of : args.rows) {
    if (of.rows > most_few_rows && !args.batch_invariant && many_ != nullptr) {
      many_items_.push_back({of.expert, row, of.rows});
    } else {
      for (std::uint32_t done = 0; done < of.rows; done += most_few_rows) {
        const auto count = std::min<std::uint32_t>(most_few_rows, of.rows - done);
        few[num_few++] = {of.expert, row + done, count};
        most_rows = std::max<std::size_t>(most_rows, count);
      }
    }
    row += of.rows;
  }
  std::copy(many_items_.begin(), many_items_.end(), few + most_items_of(limits_));
  on.copy_to_device(items_.data(), host_items_.data(), host_items_.size());
  copied_.record(on);
  if (num_few != 0)
    run_few(on, args, num_few, most_rows);
  if (!many_items_.empty())
    many_->run(on, {.experts = args.experts,
                    .items = many_items_,
                    .items_on_device = items_.as<row_item>() + most_items_of(limits_),
                    .input = args.input,
                    .between = hidden_.as<bfloat16>(),
                    .output = args.output});
}

void expert_pass::run_few(const stream& on, const arguments& args, std::size_t num_items,
                          std::size_t most_rows) {
  const expert_set& e = args.experts;
  const std::size_t matrices = e.gated ? 2 : 1;
  few_rows(on, {.shape = e.first_shape(),
                .matrices = e.first,
                .num_matrices = e.first_on_host.size() / matrices * matrices,
                .items = items_.as<row_item>(),
                .num_items = num_items,
                .most_rows = most_rows,
                .input = args.input,
                .input_stride = e.hidden,
                .num_input_rows = limits_.most_rows,
                .output = hidden_.data(),
                .output_stride = e.ffn,
                .num_output_rows = limits_.most_rows,
                .result = e.gated ? few_rows_result::activate_gated : few_rows_result::activate,
                .act = e.act});
  few_rows(on, {.shape = e.second_shape(),
                .matrices = e.second,
                .num_matrices = e.second_on_host.size(),
                .items = items_.as<row_item>(),
                .num_items = num_items,
                .most_rows = most_rows,
                .input = hidden_.as<bfloat16>(),
                .input_stride = e.ffn,
                .num_input_rows = limits_.most_rows,
                .output = args.output,
                .output_stride = e.hidden,
                .num_output_rows = limits_.most_rows});
}

} // namespace troupe::kernels::cuda
