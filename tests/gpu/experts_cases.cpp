#include "kernels/cuda/experts.hpp"

#include <algorithm>
#include <numeric>

#include "tests/gpu/cases.hpp"
#include "tests/gpu/matrices.hpp"

namespace troupe::gpu_check {

namespace {

using namespace kernels;

cuda::expert_set set_of(const test_experts& experts) {
  return {.format = experts.first_shape().format,
          .hidden = experts.shape().hidden,
          .ffn = experts.shape().ffn,
          .gated = experts.shape().gated,
          .act = experts.shape().act,
          .first = experts.first().data(),
          .first_on_host = experts.first_refs(),
          .second = experts.second().data(),
          .second_on_host = experts.second_refs()};
}

std::vector<cuda::expert_rows> rows_of(const std::vector<std::uint32_t>& rows_of_experts) {
  std::vector<cuda::expert_rows> rows;
  for (std::size_t e = 0; e < rows_of_experts.size(); ++e)
    rows.push_back({static_cast<std::uint32_t>(e), rows_of_experts[e]});
  return rows;
}

// A whole pass, fast and batch-invariant, against `expert_ffn`; invariant rows one by one give the same bits.
void check(session& s, stored_as how, const expert_shape& shape,
           const std::vector<std::uint32_t>& rows_of_experts) {
  const test_experts experts(s, how, shape, rows_of_experts.size());
  const std::size_t rows = std::accumulate(rows_of_experts.begin(), rows_of_experts.end(), std::size_t{0});
  const auto input = s.normal_bf16(rows * shape.hidden);
  std::vector<std::uint32_t> from(rows);
  std::iota(from.begin(), from.end(), 0U);
  const auto want = experts.expected(s, input, from, rows_of_experts);
  const device_array<bfloat16> x(s.on(), input);
  cuda::expert_pass pass({.most_rows = rows,
                          .most_experts = rows_of_experts.size(),
                          .hidden = shape.hidden,
                          .ffn = shape.ffn,
                          .dequantized_matrices = 4});
  const auto listed = rows_of(rows_of_experts);
  std::vector<bfloat16> invariant;
  for (const bool batch_invariant : {false, true}) {
    const device_array<bfloat16> y(s.on(), rows * shape.hidden);
    pass.run(s.on(), {.experts = set_of(experts),
                      .rows = listed,
                      .input = x.data(),
                      .output = y.data(),
                      .batch_invariant = batch_invariant});
    invariant = y.download(s.on());
    // With cuBLAS gates, ups and, of quantized weights, the last sums are rounded to BF16 once more.
    tolerance allowed = tolerance_bf16(shape.ffn);
    if (!batch_invariant)
      allowed = {.relative = 0x1p-7, .element = 0x1p-5};
    s.compare(std::string(name_of(how)) + (shape.gated ? " gated" : " plain")
                  + (batch_invariant ? ", batch-invariant" : ", fast"),
              invariant, want, allowed);
  }
  const std::uint32_t last = static_cast<std::uint32_t>(rows_of_experts.size() - 1);
  const device_array<bfloat16> alone(s.on(), shape.hidden);
  const std::vector<cuda::expert_rows> one = {{last, 1}};
  pass.run(s.on(), {.experts = set_of(experts),
                    .rows = one,
                    .input = x.data() + (rows - 1) * shape.hidden,
                    .output = alone.data(),
                    .batch_invariant = true});
  s.compare_exact(std::string(name_of(how)) + ", the last row alone", alone.download(s.on()),
                  std::vector(invariant.end() - static_cast<std::ptrdiff_t>(shape.hidden), invariant.end()));
}

// Work of a pass: each expert's weights once, rows in and out; operations of three matrices.
void time_pass(session& s, stored_as how, const expert_shape& shape,
               const std::vector<std::uint32_t>& rows_of_experts, const std::string& what) {
  const test_experts experts(s, how, shape, rows_of_experts.size());
  const std::size_t rows = std::accumulate(rows_of_experts.begin(), rows_of_experts.end(), std::size_t{0});
  const auto used = static_cast<std::size_t>(std::count_if(rows_of_experts.begin(), rows_of_experts.end(),
                                                           [](std::uint32_t count) { return count != 0; }));
  const device_array<bfloat16> x(s.on(), s.normal_bf16(rows * shape.hidden));
  const device_array<bfloat16> y(s.on(), rows * shape.hidden);
  cuda::expert_pass pass(
      {.most_rows = rows, .most_experts = rows_of_experts.size(), .hidden = shape.hidden, .ffn = shape.ffn});
  const auto listed = rows_of(rows_of_experts);
  const std::size_t expert_bytes =
      2 * experts.first_shape().weight_bytes() + experts.second_shape().weight_bytes()
      + 4 * (2 * experts.first_shape().group_scale_words() + experts.second_shape().group_scale_words());
  s.time_eagerly(
      "experts " + std::string(name_of(how)) + " " + what,
      {.bytes = static_cast<double>(used * expert_bytes + 4 * rows * shape.hidden),
       .flops = 6.0 * static_cast<double>(rows * shape.hidden * shape.ffn)},
      [&] {
        pass.run(s.on(), {.experts = set_of(experts), .rows = listed, .input = x.data(), .output = y.data()});
      });
}

// `rows` dealt out at random over `experts`, of which `active` get some.
std::vector<std::uint32_t> dealt(session& s, std::uint32_t rows, std::uint32_t experts,
                                 std::uint32_t active) {
  std::vector<std::uint32_t> counts(experts);
  for (std::uint32_t r = 0; r < rows; ++r)
    ++counts[s.below(active)];
  return counts;
}

} // namespace

void check_experts(session& s) {
  if (!s.begin("experts"))
    return;
  const bool small = s.options().small;
  for (const stored_as how : every_storage) {
    check(s, how, {72, 40, true, true, activation::silu}, {33, 0, 3, 40, 1});
    if (small)
      continue;
    check(s, how, {512, 328, true, false, activation::silu}, {70, 1, 0, 200, 33, 32, 5, 129});
    check(s, how, {256, 512, false, true, activation::gelu_tanh}, {0, 0, 300});
  }
  if (!s.options().times)
    return;
  // "Who Says Elephants Can't Run", table 1: 40 rows over 1 to 32 active experts; then a prefill and a
  // decode.
  const expert_shape table1 = small ? expert_shape{64, 32} : expert_shape{1024, 4096};
  for (const stored_as how : {stored_as::bf16, stored_as::int8, stored_as::int4})
    for (const std::uint32_t active : {1U, 4U, 8U, 16U, 24U, 32U})
      time_pass(s, how, table1, dealt(s, 40, 32, active), std::to_string(active) + " active, 40 rows");
  const expert_shape olmoe = small ? expert_shape{64, 32} : expert_shape{2048, 1024};
  time_pass(s, stored_as::bf16, olmoe, dealt(s, 8, 64, 64), "64 experts, 8 rows");
  time_pass(s, stored_as::bf16, olmoe, dealt(s, 512, 64, 64), "64 experts, 512 rows");
  time_pass(s, stored_as::bf16, olmoe, dealt(s, small ? 100 : 32768, 64, 64), "64 experts, 32768 rows");
}

} // namespace troupe::gpu_check
