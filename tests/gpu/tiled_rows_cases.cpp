#include "kernels/cuda/tiled_rows.hpp"

#include <numeric>

#include "tests/gpu/cases.hpp"
#include "tests/gpu/matrices.hpp"

namespace troupe::gpu_check {

namespace {

using namespace kernels;
using cuda::few_rows_args;
using cuda::few_rows_result;
using cuda::row_item;

// Rows of matrices, in order, cut into items.
std::vector<row_item> items_of(const std::vector<std::uint32_t>& rows_of_matrices, std::uint32_t most) {
  std::vector<row_item> items;
  std::uint32_t row = 0;
  for (std::uint32_t m = 0; m < rows_of_matrices.size(); row += rows_of_matrices[m++])
    for (std::uint32_t done = 0; done == 0 || done < rows_of_matrices[m]; done += most)
      items.push_back({m, row + done, std::min(most, rows_of_matrices[m] - done)});
  return items;
}

// Every kind of result, rows gathered through an index: same bits as `few_rows`, which is checked against the
// CPU.
void check_equal(session& s, stored_as how, std::size_t outputs, std::size_t inputs,
                 const std::vector<std::uint32_t>& rows_of_matrices, few_rows_result result) {
  const bool gated = result == few_rows_result::activate_gated;
  const std::size_t rows = std::accumulate(rows_of_matrices.begin(), rows_of_matrices.end(), std::size_t{0});
  std::vector<device_matrix> owned;
  std::vector<cuda::weight_matrix> refs;
  const auto bias = s.normal(outputs);
  for (std::size_t m = 0; m < rows_of_matrices.size() * (gated ? 2 : 1); ++m)
    owned.emplace_back(s, how, test_matrix(s, outputs, inputs), m % 3 == 0 ? &bias : nullptr);
  for (const device_matrix& matrix : owned)
    refs.push_back(matrix.ref());
  const std::size_t sources = rows / 2 + 1;
  std::vector<std::uint32_t> from(rows);
  std::generate(from.begin(), from.end(), [&] { return s.below(static_cast<std::uint32_t>(sources)); });
  const device_array<cuda::weight_matrix> matrices(s.on(), refs);
  const device_array<bfloat16> x(s.on(), s.normal_bf16(sources * inputs));
  const device_array<std::uint32_t> device_from(s.on(), from);
  const auto before = s.normal(rows * outputs);
  const auto products = [&](std::uint32_t most) {
    const device_array<row_item> items(s.on(), items_of(rows_of_matrices, most));
    const device_array<float> y(s.on(), before);
    const few_rows_args args{.shape = owned.front().shape(),
                             .matrices = matrices.data(),
                             .num_matrices = refs.size(),
                             .items = items.data(),
                             .num_items = items.size(),
                             .most_rows = most,
                             .input = x.data(),
                             .input_stride = inputs,
                             .input_rows = device_from.data(),
                             .num_input_rows = sources,
                             .output = y.data(),
                             .output_type = dtype::f32,
                             .output_stride = outputs,
                             .num_output_rows = rows,
                             .result = result};
    cuda::multiply_rows(s.on(), args);
    return y.download(s.on());
  };
  const auto want = products(cuda::most_few_rows);
  const std::string what = std::string(name_of(how)) + " " + std::to_string(rows) + " x "
                           + std::to_string(inputs) + " -> " + std::to_string(outputs);
  s.compare_exact(what, products(cuda::most_tiled_rows), want);
  s.compare_exact(what + ", in items of 50", products(50), want);
}

// The same as BF16, as rows of activations are.
void check_bf16(session& s) {
  const std::size_t rows = 37;
  const std::size_t width = 72;
  const device_matrix matrix(s, stored_as::bf16, test_matrix(s, width, width));
  const device_array<cuda::weight_matrix> matrices(s.on(), std::vector{matrix.ref()});
  const device_array<bfloat16> x(s.on(), s.normal_bf16(rows * width));
  const auto products = [&](std::uint32_t most) {
    const device_array<row_item> items(s.on(), items_of({rows}, most));
    const device_array<bfloat16> y(s.on(), rows * width);
    cuda::multiply_rows(s.on(), {.shape = matrix.shape(),
                                 .matrices = matrices.data(),
                                 .num_matrices = 1,
                                 .items = items.data(),
                                 .num_items = items.size(),
                                 .most_rows = most,
                                 .input = x.data(),
                                 .input_stride = width,
                                 .num_input_rows = rows,
                                 .output = y.data(),
                                 .output_stride = width,
                                 .num_output_rows = rows});
    return y.download(s.on());
  };
  s.compare_exact("bf16 results", products(cuda::most_tiled_rows), products(cuda::most_few_rows));
}

void time_products(session& s, stored_as how, std::size_t rows, std::size_t outputs, std::size_t inputs) {
  const device_matrix matrix(s, how, outputs, inputs);
  const device_array<cuda::weight_matrix> matrices(s.on(), std::vector{matrix.ref()});
  const auto cut = items_of({static_cast<std::uint32_t>(rows)}, cuda::most_tiled_rows);
  const device_array<row_item> items(s.on(), cut);
  const device_array<bfloat16> x(s.on(), s.normal_bf16(rows * inputs));
  const device_array<bfloat16> y(s.on(), rows * outputs);
  s.time("tiled_rows " + std::string(name_of(how)) + " " + std::to_string(rows) + " x "
             + std::to_string(inputs) + " -> " + std::to_string(outputs),
         {.bytes = static_cast<double>(matrix.num_bytes() + 2 * rows * (inputs + outputs)),
          .flops = 2.0 * static_cast<double>(rows * outputs * inputs)},
         1, [&](std::size_t) {
           cuda::tiled_rows(s.on(), {.shape = matrix.shape(),
                                     .matrices = matrices.data(),
                                     .num_matrices = 1,
                                     .items = items.data(),
                                     .num_items = items.size(),
                                     .most_rows = cuda::most_tiled_rows,
                                     .input = x.data(),
                                     .input_stride = inputs,
                                     .num_input_rows = rows,
                                     .output = y.data(),
                                     .output_stride = outputs,
                                     .num_output_rows = rows});
         });
}

} // namespace

void check_tiled_rows(session& s) {
  if (!s.begin("tiled_rows"))
    return;
  const bool small = s.options().small;
  for (const stored_as how : every_storage) {
    check_equal(s, how, 40, 72, {33}, few_rows_result::add);
    check_equal(s, how, 136, 584, {1, 0, 130}, few_rows_result::replace);
    check_equal(s, how, 72, 1096, {5, 70}, few_rows_result::activate_gated);
    if (small)
      continue;
    check_equal(s, how, 515, 2048, {300, 3, 0, 129}, few_rows_result::activate_gated);
    check_equal(s, how, 1000, 4096, {512}, few_rows_result::add);
    check_equal(s, how, 17, 8, {200}, few_rows_result::activate);
  }
  check_bf16(s);
  if (!s.options().times)
    return;
  for (const stored_as how : {stored_as::bf16, stored_as::int8, stored_as::int4_group32})
    if (small)
      time_products(s, how, 40, 64, 64);
    else
      time_products(s, how, 2048, 14336, 4096);
}

} // namespace troupe::gpu_check
