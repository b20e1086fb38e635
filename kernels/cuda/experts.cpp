#include "kernels/cuda/experts.hpp"

#include <algorithm>

#include "kernels/cuda/dequantize_rows.hpp"
#include "kernels/cuda/finish_rows.hpp"
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

expert_pass::many_rows_memory::many_rows_memory(const expert_pass_limits& limits)
    : products(limits.most_experts),
      gates(limits.most_rows * limits.ffn * sizeof(bfloat16)),
      ups(gates.size()) {}

expert_pass::expert_pass(const expert_pass_limits& limits)
    : limits_(limits),
      host_items_(2 * most_items_of(limits) * sizeof(row_item)),
      items_(host_items_.size()),
      hidden_(limits.most_rows * limits.ffn * sizeof(bfloat16)) {}

void expert_pass::run(const stream& on, const arguments& args) {
  check(limits_, args);
  copied_.synchronize();
  // Items for `few_rows` from the front, whole experts for `finish_rows` behind them.
  auto* few = host_items_.as<row_item>();
  std::size_t num_few = 0;
  std::size_t most_rows = 0;
  many_items_.clear();
  std::uint32_t row = 0;
  for (const expert_rows& of : args.rows) {
    if (of.rows > most_few_rows && !args.batch_invariant) {
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
  if (many_items_.empty())
    return;
  if (!many_)
    many_.emplace(limits_);
  // As many experts at a time as fit dequantized.
  const std::size_t matrices = args.experts.gated ? 2 : 1;
  const std::size_t at_once = args.experts.format == weight_format::bf16
                                  ? many_items_.size()
                                  : std::max<std::size_t>(1, limits_.dequantized_matrices / matrices);
  for (std::size_t begin = 0; begin < many_items_.size(); begin += at_once)
    run_many(on, args, std::span(many_items_).subspan(begin, std::min(at_once, many_items_.size() - begin)));
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

// The matrix `first` as BF16: as it is, or made so in place `place` of the memory for that.
const bfloat16* expert_pass::weights_of(const stream& on, const weight_shape& shape,
                                        const weight_matrix* on_device,
                                        std::span<const weight_matrix> on_host, std::size_t first,
                                        std::size_t place) {
  if (shape.format == weight_format::bf16)
    return static_cast<const bfloat16*>(on_host[first].weights);
  device_memory& dequantized = many_->dequantized;
  if (dequantized.size() == 0)
    dequantized = device_memory(std::max<std::size_t>(limits_.dequantized_matrices, 2) * limits_.ffn
                                * limits_.hidden * sizeof(bfloat16));
  bfloat16* to = dequantized.as<bfloat16>() + place * limits_.ffn * limits_.hidden;
  dequantize(on, {.shape = shape, .matrices = on_device + first, .num_wanted = 1, .output = to});
  return to;
}

void expert_pass::multiply(const stream& on, const many_rows_args& args, std::span<const row_item> items,
                           std::span<const bfloat16* const> weights) {
  std::vector<row_group> groups;
  groups.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i)
    groups.push_back({weights[i], items[i].first_row, items[i].rows});
  many_->products.multiply_groups(on, args, groups);
}

void expert_pass::run_many(const stream& on, const arguments& args, std::span<const row_item> items) {
  const expert_set& e = args.experts;
  const std::size_t matrices = e.gated ? 2 : 1;
  std::vector<const bfloat16*> weights(items.size());
  const auto take_first = [&](std::size_t which) {
    for (std::size_t i = 0; i < items.size(); ++i)
      weights[i] = weights_of(on, e.first_shape(), e.first, e.first_on_host,
                              items[i].matrix * matrices + which, i * matrices + which);
  };
  finish_rows_args finish{.rows = items.back().first_row + items.back().rows,
                          .cols = e.ffn,
                          .matrices = e.first,
                          .items = items_.as<row_item>() + most_items_of(limits_)
                                   + (items.data() - many_items_.data()),
                          .num_items = items.size(),
                          .result = e.gated ? few_rows_result::activate_gated : few_rows_result::activate,
                          .act = e.act};
  const many_rows_args into{.outputs = e.ffn, .inputs = e.hidden, .input = args.input};
  many_rows_args gates = into;
  gates.output = many_->gates.data();
  take_first(0);
  multiply(on, gates, items, weights);
  if (e.gated) {
    many_rows_args ups = into;
    ups.output = many_->ups.data();
    take_first(1);
    multiply(on, ups, items, weights);
    finish.up_sums = many_->ups.data();
  }
  finish.sums = many_->gates.data();
  finish.output = hidden_.data();
  finish_rows(on, finish);

  for (std::size_t i = 0; i < items.size(); ++i)
    weights[i] = weights_of(on, e.second_shape(), e.second, e.second_on_host, items[i].matrix, i);
  multiply(on, {.outputs = e.hidden, .inputs = e.ffn, .input = hidden_.as<bfloat16>(), .output = args.output},
           items, weights);
  const auto is_plain = [&](const row_item& item) {
    const weight_matrix& matrix = e.second_on_host[item.matrix];
    return matrix.channel_scales == nullptr && matrix.bias == nullptr;
  };
  if (std::all_of(items.begin(), items.end(), is_plain))
    return;
  finish.cols = e.hidden;
  finish.matrices = e.second;
  finish.result = few_rows_result::replace;
  finish.sums = args.output;
  finish.output = args.output;
  finish_rows(on, finish);
}

} // namespace troupe::kernels::cuda
