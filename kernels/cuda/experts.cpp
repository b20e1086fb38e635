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
  few_items_.clear();
  tiled_items_.clear();
  many_items_.clear();
  std::uint32_t row = 0;
  for (const expert_rows& of : args.rows) {
    const bool has_many = of.rows > most_few_rows;
    if (has_many && many_ != nullptr) {
      many_items_.push_back({of.expert, row, of.rows});
    } else {
      const auto at_once = static_cast<std::uint32_t>(item_rows_for(of.rows));
      auto& items = has_many ? tiled_items_ : few_items_; // separate, so that few rows never use tiles
      for (std::uint32_t done = 0; done < of.rows; done += at_once)
        items.push_back({of.expert, row + done, std::min(at_once, of.rows - done)});
    }
    row += of.rows;
  }
  auto* next = host_items_.as<row_item>();
  for (const auto* items : {&few_items_, &tiled_items_, &many_items_})
    next = std::copy(items->begin(), items->end(), next);
  on.copy_to_device(items_.data(), host_items_.data(),
                    static_cast<std::size_t>(next - host_items_.as<row_item>()) * sizeof(row_item));
  copied_.record(on);
  const auto* on_device = items_.as<row_item>();
  run_items(on, args, few_items_, on_device);
  run_items(on, args, tiled_items_, on_device + few_items_.size());
  if (!many_items_.empty())
    many_->run(on, {.experts = args.experts,
                    .items = many_items_,
                    .items_on_device = on_device + few_items_.size() + tiled_items_.size(),
                    .input = args.input,
                    .between = hidden_.as<bfloat16>(),
                    .output = args.output});
}

void expert_pass::run_items(const stream& on, const arguments& args, std::span<const row_item> items,
                            const row_item* on_device) {
  std::size_t most_rows = 0;
  for (const row_item& item : items)
    most_rows = std::max<std::size_t>(most_rows, item.rows);
  if (most_rows == 0)
    return;
  const expert_set& e = args.experts;
  const std::size_t matrices = e.gated ? 2 : 1;
  std::size_t rows = 0;
  for (const expert_rows& of : args.rows)
    rows += of.rows;
  multiply_rows(on, {.shape = e.first_shape(),
                     .matrices = e.first,
                     .num_matrices = e.first_on_host.size() / matrices * matrices,
                     .items = on_device,
                     .num_items = items.size(),
                     .most_rows = most_rows,
                     .input = args.input,
                     .input_stride = e.hidden,
                     .num_input_rows = rows,
                     .output = hidden_.data(),
                     .output_stride = e.ffn,
                     .num_output_rows = rows,
                     .result = e.gated ? few_rows_result::activate_gated : few_rows_result::activate,
                     .act = e.act,
                     .act_limit = e.act_limit});
  multiply_rows(on, {.shape = e.second_shape(),
                     .matrices = e.second,
                     .num_matrices = e.second_on_host.size(),
                     .items = on_device,
                     .num_items = items.size(),
                     .most_rows = most_rows,
                     .input = hidden_.as<bfloat16>(),
                     .input_stride = e.ffn,
                     .num_input_rows = rows,
                     .output = args.output,
                     .output_stride = e.hidden,
                     .num_output_rows = rows});
}

} // namespace troupe::kernels::cuda
