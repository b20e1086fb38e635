#include "kernels/cuda/norm.hpp"
#include "kernels/norm.hpp"
#include "tests/gpu/cases.hpp"

namespace troupe::gpu_check {

namespace {

using namespace kernels;

void check(session& s, bool rms, std::size_t rows, std::size_t cols, dtype input_type) {
  const auto input = s.normal(rows * cols, 3.0F);
  const auto narrow = s.normal_bf16(rows * cols, 3.0F);
  const auto weight = s.normal(cols);
  const auto bias = s.normal(cols);
  const bool wide = input_type == dtype::f32;
  const device_array<float> x(s.on(), input);
  const device_array<bfloat16> narrow_x(s.on(), narrow);
  const device_array<float> w(s.on(), weight);
  const device_array<float> b(s.on(), bias);
  const device_array<bfloat16> y(s.on(), rows * cols);
  cuda::norm_args args{.input = x.data(),
                       .input_type = input_type,
                       .input_stride = cols,
                       .rows = rows,
                       .cols = cols,
                       .weight = w.data(),
                       .bias = rms ? nullptr : b.data(),
                       .weight_offset = rms ? 0.5F : 0.0F,
                       .output = y.data(),
                       .output_stride = cols};
  if (!wide)
    args.input = narrow_x.data();
  std::vector<bfloat16> want(rows * cols);
  const const_tensor_view in = wide ? view_of(input.data(), rows, cols) : view_of(narrow.data(), rows, cols);
  if (rms) {
    cuda::rms_norm(s.on(), args);
    rms_norm(s.cpu(), {.input = in,
                       .weight = weight.data(),
                       .weight_offset = 0.5F,
                       .output = view_of(want.data(), rows, cols)});
  } else {
    cuda::layer_norm(s.on(), args);
    layer_norm(s.cpu(), {.input = in,
                         .weight = weight.data(),
                         .bias = bias.data(),
                         .epsilon = 1e-6F,
                         .output = view_of(want.data(), rows, cols)});
  }
  s.compare(std::string(rms ? "rms " : "layer ") + std::to_string(rows) + " x " + std::to_string(cols)
                + (wide ? " f32" : " bf16"),
            y.download(s.on()), want, tolerance_bf16(cols));
}

// Rows that are their own output: the same bits as with separate output.
void check_in_place(session& s, bool rms, std::size_t rows, std::size_t cols) {
  const auto input = s.normal(rows * cols, 3.0F);
  const device_array<float> x(s.on(), input);
  const device_array<float> w(s.on(), s.normal(cols));
  const device_array<float> y(s.on(), input.size());
  cuda::norm_args args{.input = x.data(),
                       .input_stride = cols,
                       .rows = rows,
                       .cols = cols,
                       .weight = w.data(),
                       .output = y.data(),
                       .output_type = dtype::f32,
                       .output_stride = cols};
  for (void* output : {static_cast<void*>(y.data()), static_cast<void*>(x.data())}) {
    args.output = output;
    rms ? cuda::rms_norm(s.on(), args) : cuda::layer_norm(s.on(), args);
  }
  s.compare_exact(std::string(rms ? "rms " : "layer ") + std::to_string(rows) + " x " + std::to_string(cols)
                      + " in place",
                  x.download(s.on()), y.download(s.on()));
}

void time_norm(session& s, bool rms, std::size_t rows, std::size_t cols) {
  const device_array<float> x(s.on(), s.normal(rows * cols));
  const device_array<float> w(s.on(), s.normal(cols));
  const device_array<bfloat16> y(s.on(), rows * cols);
  const auto norm = rms ? cuda::rms_norm : cuda::layer_norm;
  s.time((rms ? "rms_norm " : "layer_norm ") + std::to_string(rows) + " x " + std::to_string(cols),
         {.bytes = static_cast<double>(rows * cols * 6), .flops = 0.0}, 1, [&](std::size_t) {
           norm(s.on(), {.input = x.data(),
                         .input_stride = cols,
                         .rows = rows,
                         .cols = cols,
                         .weight = w.data(),
                         .output = y.data(),
                         .output_stride = cols});
         });
}

} // namespace

void check_norm(session& s) {
  if (!s.begin("norm"))
    return;
  // Up to 2048, 4096 and 8192 columns, threads keep their part of a row.
  for (const bool rms : {true, false}) {
    for (const std::size_t cols : {5U, 2049U, 4097U, 8192U, 8193U})
      check_in_place(s, rms, 2, cols);
    for (const dtype type : {dtype::f32, dtype::bf16}) {
      for (const std::size_t cols : {1U, 2048U, 4096U, 8192U})
        check(s, rms, 1, cols, type);
      check(s, rms, 3, 257, type);
      check(s, rms, 2, 8200, type);
      if (!s.options().small) {
        check(s, rms, 65, 4096, type);
        check(s, rms, 7, 12289, type);
      }
    }
  }
  if (!s.options().times)
    return;
  for (const bool rms : {true, false}) {
    time_norm(s, rms, 1, s.options().small ? 64 : 4096);
    time_norm(s, rms, s.options().small ? 2 : 4096, s.options().small ? 64 : 4096);
  }
}

} // namespace troupe::gpu_check
