#include <numeric>

#include "kernels/cuda/few_rows.hpp"
#include "kernels/cuda/head_products.hpp"
#include "kernels/cuda/tiled_rows.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/gemm.hpp"
#include "kernels/head_products.hpp"
#include "tests/gpu/cases.hpp"
#include "tests/gpu/matrices.hpp"

namespace troupe::gpu_check {

namespace {

using namespace kernels;
using cuda::few_rows_result;
using cuda::row_item;

struct product_shape {
  std::size_t rows;
  std::size_t outputs;
  std::size_t inputs;
};

std::string text(stored_as how, const product_shape& p, const char* kind) {
  return std::string(name_of(how)) + " " + std::to_string(p.rows) + " x " + std::to_string(p.inputs) + " -> "
         + std::to_string(p.outputs) + " " + kind;
}

// Rows cut into items of at most 32.
std::vector<row_item> items_of(std::size_t rows) {
  std::vector<row_item> items;
  for (std::size_t first = 0; first < rows; first += cuda::most_few_rows)
    items.push_back({0, static_cast<std::uint32_t>(first),
                     static_cast<std::uint32_t>(std::min(cuda::most_few_rows, rows - first))});
  return items;
}

// One plain product, FP32 out with bias, replaced (and divided) and added, against `gemm`.
void check_product(session& s, stored_as how, const product_shape& p,
                   std::initializer_list<few_rows_result> results = {few_rows_result::replace,
                                                                     few_rows_result::add}) {
  const test_matrix weight(s, p.outputs, p.inputs);
  const auto bias = s.normal(p.outputs);
  const auto input = s.normal_bf16(p.rows * p.inputs);
  const auto before = s.normal(p.rows * p.outputs);
  const auto packed = packed_matrix::pack(packed_format_of(how), weight.view(), s.cpu().instruction_set());
  const device_matrix matrix(s, how, weight, &bias);
  const device_array<cuda::weight_matrix> matrices(s.on(), std::vector{matrix.ref()});
  const device_array<row_item> items(s.on(), items_of(p.rows));
  const device_array<bfloat16> x(s.on(), input);
  for (const auto result : results) {
    const bool adds = result == few_rows_result::add;
    const device_array<float> y =
        adds ? device_array<float>(s.on(), before) : device_array<float>(s.on(), p.rows * p.outputs);
    const float factor = adds ? 0.22F : 1.0F;
    const float divisor = adds ? 1.0F : 6.0F;
    cuda::few_rows(s.on(), {.shape = matrix.shape(),
                            .matrices = matrices.data(),
                            .num_matrices = 1,
                            .items = items.data(),
                            .num_items = items.size(),
                            .most_rows = std::min(p.rows, cuda::most_few_rows),
                            .input = x.data(),
                            .input_stride = p.inputs,
                            .num_input_rows = p.rows,
                            .output = y.data(),
                            .output_type = dtype::f32,
                            .output_stride = p.outputs,
                            .num_output_rows = p.rows,
                            .result = result,
                            .factor = factor,
                            .divisor = divisor});
    std::vector<float> want = before;
    gemm(s.cpu(), {.input = view_of(input.data(), p.rows, p.inputs),
                   .weight = &packed,
                   .bias = bias.data(),
                   .output = view_of(want.data(), p.rows, p.outputs),
                   .mode = adds ? gemm_output::add : gemm_output::replace,
                   .factor = factor});
    divide_rows(s.cpu(), view_of(want.data(), p.rows, p.outputs), divisor);
    s.compare(text(how, p, adds ? "added" : "replaced"), y.download(s.on()), want, tolerance_f32(p.inputs));
  }
}

// A row alone, and among 32: the same bits.
void check_invariance(session& s, stored_as how) {
  const product_shape p{s.options().small ? 9U : 32U, 48, 328};
  const test_matrix weight(s, p.outputs, p.inputs);
  const device_matrix matrix(s, how, weight);
  const device_array<cuda::weight_matrix> matrices(s.on(), std::vector{matrix.ref()});
  const device_array<bfloat16> x(s.on(), s.normal_bf16(p.rows * p.inputs));
  const auto run = [&](const std::vector<row_item>& cut, std::size_t most_rows) {
    const device_array<row_item> items(s.on(), cut);
    const device_array<float> y(s.on(), p.rows * p.outputs);
    cuda::few_rows(s.on(), {.shape = matrix.shape(),
                            .matrices = matrices.data(),
                            .num_matrices = 1,
                            .items = items.data(),
                            .num_items = items.size(),
                            .most_rows = most_rows,
                            .input = x.data(),
                            .input_stride = p.inputs,
                            .num_input_rows = p.rows,
                            .output = y.data(),
                            .output_type = dtype::f32,
                            .output_stride = p.outputs,
                            .num_output_rows = p.rows});
    return y.download(s.on());
  };
  std::vector<row_item> single(p.rows);
  for (std::size_t r = 0; r < p.rows; ++r)
    single[r] = {0, static_cast<std::uint32_t>(r), 1};
  s.compare_exact(text(how, p, "one by one"), run(single, 1), run(items_of(p.rows), cuda::most_few_rows));
}

// A matrix for each head, inputs and outputs between others, against `head_products`.
void check_heads(session& s, stored_as how, std::size_t rows) {
  constexpr std::size_t heads = 3;
  constexpr std::size_t inputs = 72;
  constexpr std::size_t outputs = 40;
  constexpr std::size_t input_step = 88;
  constexpr std::size_t output_step = 56;
  std::vector<packed_matrix> packed;
  std::vector<device_matrix> owned;
  std::vector<cuda::weight_matrix> refs;
  for (std::size_t h = 0; h < heads; ++h) {
    const test_matrix weight(s, outputs, inputs);
    packed.push_back(packed_matrix::pack(packed_format_of(how), weight.view(), s.cpu().instruction_set()));
    owned.emplace_back(s, how, weight);
  }
  for (const device_matrix& matrix : owned)
    refs.push_back(matrix.ref());
  const auto input = s.normal_bf16(rows * heads * input_step);
  const auto before = s.normal(rows * heads * output_step);
  const std::size_t most = cuda::item_rows_for(rows);
  const device_array<cuda::weight_matrix> matrices(s.on(), refs);
  const device_array<row_item> items(s.on(), cuda::head_items(heads, rows, most));
  const device_array<bfloat16> x(s.on(), input);
  const device_array<float> y(s.on(), before);
  cuda::multiply_rows(s.on(), {.shape = owned.front().shape(),
                               .matrices = matrices.data(),
                               .num_matrices = heads,
                               .items = items.data(),
                               .num_items = items.size(),
                               .most_rows = most,
                               .row_step = heads,
                               .input = x.data(),
                               .input_stride = input_step,
                               .num_input_rows = rows * heads,
                               .output = y.data(),
                               .output_type = dtype::f32,
                               .output_stride = output_step,
                               .num_output_rows = rows * heads});
  auto want = before;
  head_products(s.cpu(), {.input = view_of(input.data(), rows, heads * input_step),
                          .input_step = input_step,
                          .weights = packed,
                          .output = view_of(want.data(), rows, heads * output_step),
                          .output_step = output_step});
  s.compare(std::string(name_of(how)) + " " + std::to_string(rows) + " rows of heads", y.download(s.on()),
            want, tolerance_f32(inputs));
}

// Experts' networks, rows gathered through an index, against `expert_ffn`.
void check_experts(session& s, stored_as how, const expert_shape& shape,
                   const std::vector<std::uint32_t>& rows_of_experts, const std::string& what) {
  const test_experts experts(s, how, shape, rows_of_experts.size());
  const std::size_t rows = std::accumulate(rows_of_experts.begin(), rows_of_experts.end(), std::size_t{0});
  const std::size_t sources = rows / 2 + 1; // rows occur several times, as with top-k
  const auto input = s.normal_bf16(sources * shape.hidden);
  std::vector<std::uint32_t> from(rows);
  std::generate(from.begin(), from.end(), [&] { return s.below(static_cast<std::uint32_t>(sources)); });
  std::vector<row_item> items;
  std::size_t row = 0;
  for (std::size_t e = 0; e < rows_of_experts.size(); row += rows_of_experts[e++])
    for (std::size_t done = 0; done < std::max<std::size_t>(rows_of_experts[e], 1);
         done += cuda::most_few_rows)
      items.push_back({static_cast<std::uint32_t>(e), static_cast<std::uint32_t>(row + done),
                       static_cast<std::uint32_t>(std::min(cuda::most_few_rows, rows_of_experts[e] - done))});
  const device_array<row_item> device_items(s.on(), items);
  const device_array<bfloat16> x(s.on(), input);
  const device_array<std::uint32_t> device_from(s.on(), from);
  const device_array<bfloat16> h(s.on(), rows * shape.ffn);
  const device_array<bfloat16> y(s.on(), rows * shape.hidden);
  cuda::few_rows(s.on(), {.shape = experts.first_shape(),
                          .matrices = experts.first().data(),
                          .num_matrices = experts.first().size(),
                          .items = device_items.data(),
                          .num_items = items.size(),
                          .input = x.data(),
                          .input_stride = shape.hidden,
                          .input_rows = device_from.data(),
                          .num_input_rows = sources,
                          .output = h.data(),
                          .output_stride = shape.ffn,
                          .num_output_rows = rows,
                          .result = shape.gated ? few_rows_result::activate_gated : few_rows_result::activate,
                          .act = shape.act,
                          .act_limit = shape.act_limit});
  cuda::few_rows(s.on(), {.shape = experts.second_shape(),
                          .matrices = experts.second().data(),
                          .num_matrices = experts.second().size(),
                          .items = device_items.data(),
                          .num_items = items.size(),
                          .input = h.data(),
                          .input_stride = shape.ffn,
                          .num_input_rows = rows,
                          .output = y.data(),
                          .output_stride = shape.hidden,
                          .num_output_rows = rows});
  s.compare(std::string(name_of(how)) + " " + what, y.download(s.on()),
            experts.expected(s, input, from, rows_of_experts), tolerance_bf16(shape.ffn));
}

void time_product(session& s, stored_as how, const product_shape& p) {
  std::vector<device_matrix> copies;
  std::vector<cuda::weight_matrix> refs;
  copies.emplace_back(s, how, p.outputs, p.inputs);
  const std::size_t weight_bytes = copies.front().num_bytes();
  const std::size_t sets = s.sets_of(weight_bytes);
  while (copies.size() < sets)
    copies.emplace_back(s, how, p.outputs, p.inputs);
  for (const device_matrix& matrix : copies)
    refs.push_back(matrix.ref());
  const device_array<cuda::weight_matrix> matrices(s.on(), refs);
  std::vector<row_item> cut;
  for (std::size_t i = 0; i < sets; ++i)
    cut.push_back({static_cast<std::uint32_t>(i), 0, static_cast<std::uint32_t>(p.rows)});
  const device_array<row_item> items(s.on(), cut);
  const device_array<bfloat16> x(s.on(), s.normal_bf16(p.rows * p.inputs));
  const device_array<float> y(s.on(), p.rows * p.outputs);
  s.time("few_rows " + text(how, p, ""),
         {.bytes = static_cast<double>(weight_bytes + p.rows * (2 * p.inputs + 4 * p.outputs)),
          .flops = 2.0 * static_cast<double>(p.rows * p.outputs * p.inputs)},
         sets, [&](std::size_t set) {
           cuda::few_rows(s.on(), {.shape = copies.front().shape(),
                                   .matrices = matrices.data(),
                                   .num_matrices = matrices.size(),
                                   .items = items.data() + set,
                                   .num_items = 1,
                                   .most_rows = p.rows,
                                   .input = x.data(),
                                   .input_stride = p.inputs,
                                   .num_input_rows = p.rows,
                                   .output = y.data(),
                                   .output_type = dtype::f32,
                                   .output_stride = p.outputs,
                                   .num_output_rows = p.rows});
         });
}

} // namespace

void check_few_rows(session& s) {
  if (!s.begin("few_rows"))
    return;
  std::vector<product_shape> shapes = {{1, 16, 64}, {5, 40, 72}, {9, 17, 328}};
  if (!s.options().small)
    shapes.insert(shapes.end(), {{1, 4096, 4096},
                                 {2, 129, 264},
                                 {8, 96, 1032},
                                 {16, 515, 2048},
                                 {17, 64, 8},
                                 {32, 1000, 4096},
                                 {77, 80, 512}});
  for (const stored_as how : every_storage) {
    for (const product_shape& p : shapes)
      check_product(s, how, p);
    check_invariance(s, how);
    check_heads(s, how, 5);
    check_heads(s, how, 150); // tiled_rows
    check_experts(s, how, {64, 40, true, true, activation::silu}, {3, 0, 9, 1}, "experts 3, 0, 9, 1 rows");
    check_experts(s, how, {72, 64, false, true, activation::gelu_erf}, {5}, "expert without a gate");
    if (s.options().small)
      continue;
    const expert_shape shape{512, 328, true, false, activation::silu};
    check_experts(s, how, shape, {70, 0, 1, 0, 32, 33, 2, 0}, "eight experts");
    check_experts(s, how, shape, {0, 0, 96, 0}, "all rows to one expert");
  }
  // So many channels that a block takes several strips, and the last block fewer than the others.
  for (const stored_as how : {stored_as::bf16, stored_as::int8, stored_as::int4})
    for (const std::size_t rows : {1U, 12U, 18U})
      check_product(s, how, {rows, 8500, 72}, {few_rows_result::replace});
  if (!s.options().times)
    return;
  for (const stored_as how : {stored_as::bf16, stored_as::int8, stored_as::int4, stored_as::int4_group32})
    for (const std::size_t rows : {1U, 8U, 32U})
      time_product(s, how,
                   s.options().small ? product_shape{rows, 64, 64} : product_shape{rows, 14336, 4096});
  // A head of logits.
  for (const std::size_t rows : {1U, 32U})
    time_product(s, stored_as::bf16,
                 s.options().small ? product_shape{rows, 500, 64} : product_shape{rows, 151936, 2048});
}

} // namespace troupe::gpu_check
