#include "kernels/cuda/many_row_experts.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/cuda/dequantize_rows.hpp"
#include "kernels/cuda/finish_rows.hpp"
#include "kernels/cuda/many_rows.hpp"

namespace troupe::kernels::cuda {

namespace {

class grouped_products final : public many_row_experts {
 public:
  explicit grouped_products(const expert_pass_limits& limits) : limits_(limits) {}

  void run(const stream& on, const many_row_work& work) override;

 private:
  // Allocated for the first work.
  struct memory {
    explicit memory(const expert_pass_limits& limits)
        : products(limits.most_experts),
          gates(limits.most_rows * limits.ffn * sizeof(bfloat16)),
          ups(gates.size()) {}

    many_rows products;
    device_memory gates;       // [most_rows, ffn]
    device_memory ups;         // [most_rows, ffn]
    device_memory dequantized; // [dequantized_matrices, ffn · hidden]; for quantized weights
  };

  void run_part(const stream& on, const many_row_work& work);
  const bfloat16* weights_of(const stream& on, const weight_shape& shape, const weight_matrix* on_device,
                             std::span<const weight_matrix> on_host, std::size_t first, std::size_t place);
  void multiply(const stream& on, const many_rows_args& args, std::span<const row_item> items,
                std::span<const bfloat16* const> weights);

  expert_pass_limits limits_;
  std::optional<memory> memory_;
};

void grouped_products::run(const stream& on, const many_row_work& work) {
  if (!memory_)
    memory_.emplace(limits_);
  // As many experts at a time as fit dequantized.
  const std::size_t matrices = work.experts.gated ? 2 : 1;
  const std::size_t at_once = work.experts.format == weight_format::bf16
                                  ? work.items.size()
                                  : std::max<std::size_t>(1, limits_.dequantized_matrices / matrices);
  for (std::size_t begin = 0; begin < work.items.size(); begin += at_once) {
    many_row_work part = work;
    part.items = work.items.subspan(begin, std::min(at_once, work.items.size() - begin));
    part.items_on_device = work.items_on_device + begin;
    run_part(on, part);
  }
}

// The matrix `first` as BF16: unchanged, or converted at index `place` of the memory for that.
const bfloat16* grouped_products::weights_of(const stream& on, const weight_shape& shape,
                                             const weight_matrix* on_device,
                                             std::span<const weight_matrix> on_host, std::size_t first,
                                             std::size_t place) {
  if (shape.format == weight_format::bf16)
    return static_cast<const bfloat16*>(on_host[first].weights);
  device_memory& dequantized = memory_->dequantized;
  if (dequantized.size() == 0)
    dequantized = device_memory(std::max<std::size_t>(limits_.dequantized_matrices, 2) * limits_.ffn
                                * limits_.hidden * sizeof(bfloat16));
  bfloat16* to = dequantized.as<bfloat16>() + place * limits_.ffn * limits_.hidden;
  dequantize(
      on, {.shape = shape, .matrices = on_device + first, .num_matrices = 1, .num_wanted = 1, .output = to});
  return to;
}

void grouped_products::multiply(const stream& on, const many_rows_args& args, std::span<const row_item> items,
                                std::span<const bfloat16* const> weights) {
  std::vector<row_group> groups;
  groups.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i)
    groups.push_back({weights[i], items[i].first_row, items[i].rows});
  memory_->products.multiply_groups(on, args, groups);
}

void grouped_products::run_part(const stream& on, const many_row_work& work) {
  const expert_set& e = work.experts;
  const auto items = work.items;
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
                          .num_matrices = e.first_on_host.size(),
                          .items = work.items_on_device,
                          .num_items = items.size(),
                          .result = e.gated ? few_rows_result::activate_gated : few_rows_result::activate,
                          .act = e.act,
                          .act_limit = e.act_limit};
  const many_rows_args into{.outputs = e.ffn, .inputs = e.hidden, .input = work.input};
  many_rows_args gates = into;
  gates.output = memory_->gates.data();
  take_first(0);
  multiply(on, gates, items, weights);
  if (e.gated) {
    many_rows_args ups = into;
    ups.output = memory_->ups.data();
    take_first(1);
    multiply(on, ups, items, weights);
    finish.up_sums = memory_->ups.data();
  }
  finish.sums = memory_->gates.data();
  finish.output = work.between;
  finish_rows(on, finish);

  for (std::size_t i = 0; i < items.size(); ++i)
    weights[i] = weights_of(on, e.second_shape(), e.second, e.second_on_host, items[i].matrix, i);
  multiply(on, {.outputs = e.hidden, .inputs = e.ffn, .input = work.between, .output = work.output}, items,
           weights);
  const auto is_plain = [&](const row_item& item) {
    const weight_matrix& matrix = e.second_on_host[item.matrix];
    return matrix.channel_scales == nullptr && matrix.bias == nullptr;
  };
  if (std::all_of(items.begin(), items.end(), is_plain))
    return;
  finish.cols = e.hidden;
  finish.matrices = e.second;
  finish.num_matrices = e.second_on_host.size();
  finish.result = few_rows_result::replace;
  finish.sums = work.output;
  finish.output = work.output;
  finish_rows(on, finish);
}

} // namespace

std::unique_ptr<many_row_experts> make_many_row_experts(const expert_pass_limits& limits) {
  return std::make_unique<grouped_products>(limits);
}

} // namespace troupe::kernels::cuda
