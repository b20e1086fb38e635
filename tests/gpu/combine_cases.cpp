#include "kernels/combine.hpp"
#include "kernels/elementwise.hpp"

#include <numeric>

#include "kernels/cuda/combine.hpp"
#include "kernels/cuda/expert_table.hpp"
#include "kernels/cuda/weigh_rows.hpp"
#include "tests/gpu/cases.hpp"
#include "tests/gpu/matrices.hpp"

namespace troupe::gpu_check {

namespace {

using namespace kernels;

enum class order : std::uint8_t { shuffled, of_slots };

void check(session& s, std::size_t rows, std::size_t top_k, std::size_t hidden, dtype type, order outputs) {
  const std::size_t pairs = rows * top_k;
  const auto wide = s.normal(pairs * hidden);
  const auto narrow = s.normal_bf16(pairs * hidden);
  const auto weights = s.normal(pairs);
  const auto before = s.normal(rows * hidden);
  std::vector<std::uint32_t> positions(pairs);
  std::iota(positions.begin(), positions.end(), 0U);
  if (outputs == order::shuffled)
    std::shuffle(positions.begin(), positions.end(), s.random());
  if (pairs > 4 && outputs == order::shuffled) {
    positions[1] = cuda::no_place;
    std::fill_n(positions.begin() + static_cast<std::ptrdiff_t>(2 * top_k), top_k,
                cuda::no_place); // a whole row
  }
  std::vector<const std::byte*> slots(pairs);
  for (std::size_t i = 0; i < pairs; ++i)
    slots[i] = positions[i] == cuda::no_place ? nullptr
               : type == dtype::f32
                   ? reinterpret_cast<const std::byte*>(wide.data() + positions[i] * hidden)
                   : reinterpret_cast<const std::byte*>(narrow.data() + positions[i] * hidden);
  std::vector<float> want = before;
  combine(s.cpu(), {.rows = slots,
                    .weights = weights,
                    .top_k = top_k,
                    .row_type = type,
                    .residual = view_of(want.data(), rows, hidden)});
  const device_array<float> device_wide(s.on(), wide);
  const device_array<bfloat16> device_narrow(s.on(), narrow);
  const device_array<float> device_weights(s.on(), weights);
  const device_array<std::uint32_t> device_positions(s.on(), positions);
  const device_array<float> residual(s.on(), before);
  cuda::combine_args args{.outputs = device_wide.data(),
                          .type = type,
                          .num_outputs = pairs,
                          .positions = outputs == order::shuffled ? device_positions.data() : nullptr,
                          .weights = device_weights.data(),
                          .top_k = top_k,
                          .rows = rows,
                          .hidden = hidden,
                          .residual = residual.data(),
                          .residual_stride = hidden};
  if (type == dtype::bf16)
    args.outputs = device_narrow.data();
  cuda::combine(s.on(), args);
  s.compare_exact(std::to_string(rows) + " rows, " + std::to_string(top_k) + " of them, "
                      + std::to_string(hidden) + " " + name_of(type)
                      + (outputs == order::of_slots ? ", in order of the slots" : ""),
                  residual.download(s.on()), want);
}

/// The inputs of experts, times their weights.
void check_weighed(session& s, std::size_t rows, std::size_t hidden) {
  const auto input = s.normal_bf16(rows * hidden);
  const auto weights = s.normal(rows);
  std::vector<bfloat16> want(rows * hidden);
  scale_rows(s.cpu(), view_of(input.data(), rows, hidden), weights, view_of(want.data(), rows, hidden));
  const device_array<bfloat16> x(s.on(), input);
  const device_array<float> w(s.on(), weights);
  const device_array<bfloat16> y(s.on(), want.size());
  cuda::weigh_rows(
      s.on(), {.input = x.data(), .rows = rows, .hidden = hidden, .weights = w.data(), .output = y.data()});
  const auto name = std::to_string(rows) + " weighed rows of " + std::to_string(hidden);
  const auto bits = [](const std::vector<bfloat16>& values) {
    std::vector<std::uint16_t> result;
    for (const auto value : values)
      result.push_back(value.bits);
    return result;
  };
  s.compare_exact(name, bits(y.download(s.on())), bits(want));
  s.compare_exact(name + ": weights", w.download(s.on()), std::vector<float>(rows, 1.0F));
}

void check_shared(session& s, std::size_t rows, std::size_t hidden, bool gated, float factor) {
  const auto input = s.normal_bf16(rows * hidden);
  const auto output = s.normal_bf16(rows * hidden);
  const auto gate = s.normal(hidden, 0.1F);
  const auto before = s.normal(rows * hidden);
  std::vector<float> want = before;
  add_shared_expert(s.cpu(), {.input = view_of(input.data(), rows, hidden),
                              .gate = gated ? gate.data() : nullptr,
                              .factor = factor,
                              .shared = view_of(output.data(), rows, hidden),
                              .residual = view_of(want.data(), rows, hidden)});
  const device_array<bfloat16> x(s.on(), input);
  const device_array<bfloat16> y(s.on(), output);
  const device_array<float> g(s.on(), gate);
  const device_array<float> residual(s.on(), before);
  cuda::add_shared_expert(s.on(), {.input = x.data(),
                                   .gate = gated ? g.data() : nullptr,
                                   .factor = factor,
                                   .output = y.data(),
                                   .rows = rows,
                                   .hidden = hidden,
                                   .residual = residual.data(),
                                   .residual_stride = hidden});
  s.compare(std::string("shared expert ") + (gated ? "gated" : "ungated") + ", times "
                + std::to_string(factor),
            residual.download(s.on()), want, tolerance_f32(hidden));
}

// `rows` rows, 8 outputs each.
void time_combine(session& s, std::size_t rows, std::size_t hidden) {
  const std::size_t pairs = rows * 8;
  std::vector<std::uint32_t> order(pairs);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), s.random());
  const device_matrix outputs(s, stored_as::bf16, pairs, hidden);
  const device_array<std::uint32_t> positions(s.on(), order);
  const device_array<float> weights(s.on(), std::vector<float>(pairs, 0.125F));
  const device_array<float> residual(s.on(), std::vector<float>(rows * hidden, 1.0F));
  s.time("combine " + std::to_string(rows) + " rows of " + std::to_string(hidden) + ", 8 each",
         {.bytes = static_cast<double>(2 * pairs * hidden + 8 * rows * hidden), .flops = 0.0}, 1,
         [&](std::size_t) {
           cuda::combine(s.on(), {.outputs = outputs.ref().weights,
                                  .num_outputs = pairs,
                                  .positions = positions.data(),
                                  .weights = weights.data(),
                                  .top_k = 8,
                                  .rows = rows,
                                  .hidden = hidden,
                                  .residual = residual.data(),
                                  .residual_stride = hidden});
         });
}

} // namespace

void check_combine(session& s) {
  if (!s.begin("combine"))
    return;
  const std::size_t rows = s.options().small ? 5 : 67;
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    check(s, 1, 1, 40, type, order::shuffled);
    check(s, rows, 2, 264, type, order::shuffled);
    check(s, rows, 8, 257, type, order::shuffled);
    check(s, rows, 2, 264, type, order::of_slots);
  }
  check_weighed(s, rows, 300);
  for (const float factor : {1.0F, 0.22F}) {
    check_shared(s, rows, 300, true, factor);
    check_shared(s, rows, 300, false, factor);
  }
  if (!s.options().times)
    return;
  for (const std::size_t timed : {64U, 4096U})
    time_combine(s, s.options().small ? 2 : timed, s.options().small ? 64 : 2048);
}

} // namespace troupe::gpu_check
