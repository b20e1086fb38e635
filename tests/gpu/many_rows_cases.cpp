#include "kernels/cuda/many_rows.hpp"

#include <cmath>
#include <cstring>

#include "kernels/cuda/dequantize_rows.hpp"
#include "kernels/gemm.hpp"
#include "tests/gpu/cases.hpp"
#include "tests/gpu/matrices.hpp"

namespace troupe::gpu_check {

namespace {

using namespace kernels;

// cuBLAS's product against `gemm`: FP32 replaced and added, BF16, and the last as one of several groups.
void check_product(session& s, std::size_t rows, std::size_t outputs, std::size_t inputs) {
  const test_matrix weight(s, outputs, inputs);
  const auto packed = packed_matrix::pack(packed_format::bf16_pair, weight.view());
  const device_matrix matrix(s, stored_as::bf16, weight);
  const auto* weights = static_cast<const bfloat16*>(matrix.ref().weights);
  const auto input = s.normal_bf16(rows * inputs);
  const auto before = s.normal(rows * outputs);
  const device_array<bfloat16> x(s.on(), input);
  cuda::many_rows many(4);
  const std::string what =
      std::to_string(rows) + " x " + std::to_string(inputs) + " -> " + std::to_string(outputs);
  const auto expected = [&](std::vector<float> y, gemm_output mode) {
    gemm(s.cpu(), {.input = view_of(input.data(), rows, inputs),
                   .weight = &packed,
                   .output = view_of(y.data(), rows, outputs),
                   .mode = mode});
    return y;
  };
  for (const bool add : {false, true}) {
    const device_array<float> y(s.on(), before);
    many.multiply(s.on(),
                  {.outputs = outputs,
                   .inputs = inputs,
                   .input = x.data(),
                   .output = y.data(),
                   .output_type = dtype::f32},
                  weights, rows, add);
    s.compare(what + (add ? " added" : " replaced"), y.download(s.on()),
              expected(before, add ? gemm_output::add : gemm_output::replace), tolerance_f32(inputs));
  }
  const auto want = expected(before, gemm_output::replace);
  std::vector<bfloat16> narrow(want.size());
  std::transform(want.begin(), want.end(), narrow.begin(), to_bfloat16);
  const device_array<bfloat16> y(s.on(), rows * outputs);
  const std::vector<cuda::row_group> groups = {
      {weights, 0, rows / 3}, {weights, 0, 0}, {weights, rows / 3, rows - rows / 3}};
  many.multiply_groups(s.on(), {.outputs = outputs, .inputs = inputs, .input = x.data(), .output = y.data()},
                       groups);
  s.compare(what + " in groups", y.download(s.on()), narrow, tolerance_bf16(inputs));
}

// Dequantized integers are exact.
void check_dequantized(session& s, stored_as how) {
  const std::size_t outputs = 37;
  const std::size_t inputs = s.options().small ? 72 : 1032;
  const test_matrix weight(s, outputs, inputs);
  const auto packed = packed_matrix::pack(packed_format_of(how), weight.view(), s.cpu().instruction_set());
  const device_matrix matrix(s, how, weight);
  const device_array<cuda::weight_matrix> matrices(s.on(), std::vector{matrix.ref(), matrix.ref()});
  const device_array<std::uint32_t> wanted(s.on(), std::vector<std::uint32_t>{1});
  const device_array<bfloat16> y(s.on(), outputs * inputs);
  cuda::dequantize(s.on(), {.shape = matrix.shape(),
                            .matrices = matrices.data(),
                            .num_matrices = matrices.size(),
                            .wanted = wanted.data(),
                            .num_wanted = 1,
                            .output = y.data()});
  const auto integers = y.download(s.on());
  std::vector<float> scales(outputs);
  s.on().copy_to_host(scales.data(), matrix.ref().channel_scales, outputs * sizeof(float));
  s.on().synchronize();
  std::vector<float> got(outputs * inputs);
  std::vector<float> want(got.size());
  for (std::size_t o = 0; o < outputs; ++o) {
    packed.unpack_row(o, std::span(want).subspan(o * inputs, inputs));
    for (std::size_t k = 0; k < inputs; ++k)
      got[o * inputs + k] = to_float(integers[o * inputs + k]) * scales[o];
  }
  s.compare(std::string("dequantized ") + name_of(how), got, want, tolerance_f32(1));
}

} // namespace

void check_many_rows(session& s) {
  if (!s.begin("many_rows"))
    return;
  check_product(s, 7, 24, 40);
  if (!s.options().small) {
    check_product(s, 333, 1024, 2048);
    check_product(s, 1024, 136, 520);
  }
  for (const stored_as how :
       {stored_as::int8, stored_as::int4, stored_as::int4_group32, stored_as::int4_group64})
    check_dequantized(s, how);
}

} // namespace troupe::gpu_check
