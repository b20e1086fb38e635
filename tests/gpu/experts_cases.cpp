#include "kernels/cuda/experts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "kernels/cuda/many_row_experts.hpp"
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
          .act_limit = experts.shape().act_limit,
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

// A whole pass, by cuBLAS and as served, compared with `expert_ffn`; a row that is served alone has the same
// bits.
void check(session& s, stored_as how, const expert_shape& shape,
           const std::vector<std::uint32_t>& rows_of_experts) {
  const test_experts experts(s, how, shape, rows_of_experts.size());
  const std::size_t rows = std::accumulate(rows_of_experts.begin(), rows_of_experts.end(), std::size_t{0});
  const auto input = s.normal_bf16(rows * shape.hidden);
  std::vector<std::uint32_t> from(rows);
  std::iota(from.begin(), from.end(), 0U);
  const auto want = experts.expected(s, input, from, rows_of_experts);
  const device_array<bfloat16> x(s.on(), input);
  const cuda::expert_pass_limits limits{.most_rows = rows,
                                        .most_experts = rows_of_experts.size(),
                                        .hidden = shape.hidden,
                                        .ffn = shape.ffn,
                                        .dequantized_matrices = 4};
  cuda::expert_pass fast(limits, cuda::make_many_row_experts(limits));
  cuda::expert_pass served(limits);
  const auto listed = rows_of(rows_of_experts);
  std::vector<bfloat16> invariant;
  for (const bool is_fast : {true, false}) {
    const device_array<bfloat16> y(s.on(), rows * shape.hidden);
    (is_fast ? fast : served)
        .run(s.on(), {.experts = set_of(experts), .rows = listed, .input = x.data(), .output = y.data()});
    invariant = y.download(s.on());
    // With cuBLAS, gates, ups and (for quantized weights) the last sums are rounded to BF16 once more.
    tolerance allowed = tolerance_bf16(shape.ffn);
    if (is_fast)
      allowed = {.relative = 0x1p-7, .element = 0x1p-5};
    s.compare(std::string(name_of(how)) + (shape.gated ? " gated" : " plain")
                  + (is_fast ? ", by cuBLAS" : ", as served"),
              invariant, want, allowed);
  }
  const std::uint32_t last = static_cast<std::uint32_t>(rows_of_experts.size() - 1);
  const device_array<bfloat16> alone(s.on(), shape.hidden);
  const std::vector<cuda::expert_rows> one = {{last, 1}};
  served.run(s.on(), {.experts = set_of(experts),
                      .rows = one,
                      .input = x.data() + (rows - 1) * shape.hidden,
                      .output = alone.data()});
  s.compare_exact(std::string(name_of(how)) + ", the last row alone", alone.download(s.on()),
                  std::vector(invariant.end() - static_cast<std::ptrdiff_t>(shape.hidden), invariant.end()));
}

// Gated experts with random weights on the device, for measuring.
class random_experts {
 public:
  random_experts(session& s, stored_as how, std::size_t hidden, std::size_t ffn, std::size_t count) {
    for (std::size_t e = 0; e < count; ++e) {
      for (const bool down : {false, false, true}) {
        matrices_.emplace_back(s, how, down ? hidden : ffn, down ? ffn : hidden);
        (down ? second_refs_ : first_refs_).push_back(matrices_.back().ref());
        expert_bytes_ += e == 0 ? matrices_.back().num_bytes() : 0;
      }
    }
    first_ = {s.on(), first_refs_};
    second_ = {s.on(), second_refs_};
    set_ = {.format = matrices_.front().shape().format,
            .hidden = hidden,
            .ffn = ffn,
            .first = first_.data(),
            .first_on_host = first_refs_,
            .second = second_.data(),
            .second_on_host = second_refs_};
  }

  const cuda::expert_set& set() const { return set_; }

  std::size_t expert_bytes() const { return expert_bytes_; }

 private:
  std::vector<device_matrix> matrices_;
  std::vector<cuda::weight_matrix> first_refs_;
  std::vector<cuda::weight_matrix> second_refs_;
  device_array<cuda::weight_matrix> first_;
  device_array<cuda::weight_matrix> second_;
  cuda::expert_set set_;
  std::size_t expert_bytes_ = 0;
};

// Work of a pass: each expert's weights once, rows in and out; operations of three matrices. Each pass uses
// the experts after those of the previous one, so that the L2 cache does not hold them. Returns its seconds.
double time_pass(session& s, const random_experts& experts, const std::vector<std::uint32_t>& rows_of_experts,
                 const std::string& what, bool by_cublas = false) {
  const cuda::expert_set& set = experts.set();
  const std::size_t rows = std::accumulate(rows_of_experts.begin(), rows_of_experts.end(), std::size_t{0});
  const auto used = static_cast<std::size_t>(std::count_if(rows_of_experts.begin(), rows_of_experts.end(),
                                                           [](std::uint32_t count) { return count != 0; }));
  const device_array<bfloat16> x(s.on(), s.normal_bf16(rows * set.hidden));
  const device_array<bfloat16> y(s.on(), rows * set.hidden);
  const cuda::expert_pass_limits limits{
      .most_rows = rows, .most_experts = rows_of_experts.size(), .hidden = set.hidden, .ffn = set.ffn};
  cuda::expert_pass pass(limits, by_cublas ? cuda::make_many_row_experts(limits) : nullptr);
  const auto listed = rows_of(rows_of_experts);
  std::vector<std::vector<cuda::expert_rows>> turns;
  for (std::size_t first = 0; first < listed.size(); first += std::max<std::size_t>(used, 1)) {
    turns.push_back(listed);
    for (cuda::expert_rows& of : turns.back())
      of.expert = static_cast<std::uint32_t>((of.expert + first) % listed.size());
  }
  return s.time_eagerly(
      "experts " + std::string(name_of(set.format)) + " " + what + (by_cublas ? ", cuBLAS" : ""),
      {.bytes = static_cast<double>(used * experts.expert_bytes() + 4 * rows * set.hidden),
       .flops = 6.0 * static_cast<double>(rows * set.hidden * set.ffn)},
      [&](std::size_t number) {
        pass.run(
            s.on(),
            {.experts = set, .rows = turns[number % turns.size()], .input = x.data(), .output = y.data()});
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

double geometric_mean(const std::vector<double>& values) {
  double logarithms = 0.0;
  for (const double value : values)
    logarithms += std::log(value);
  return std::exp(logarithms / static_cast<double>(values.size()));
}

// "Who Says Elephants Can't Run", table 1: 40 rows over 1 to 32 active experts of 1024 x 4096, and the
// speedup of the integers over BF16.
void time_table_1(session& s) {
  const bool small = s.options().small;
  std::vector<double> seconds_of_bf16;
  for (const stored_as how : {stored_as::bf16, stored_as::int8, stored_as::int4}) {
    const random_experts experts(s, how, small ? 64 : 1024, small ? 32 : 4096, 32);
    std::vector<double> speedups;
    for (const std::uint32_t active : {1U, 4U, 8U, 16U, 24U, 32U}) {
      const double seconds =
          time_pass(s, experts, dealt(s, 40, 32, active), std::to_string(active) + " active, 40 rows");
      if (how == stored_as::bf16)
        seconds_of_bf16.push_back(seconds);
      else if (seconds > 0.0)
        speedups.push_back(seconds_of_bf16[speedups.size()] / seconds);
    }
    if (speedups.empty())
      continue;
    char text[120];
    std::snprintf(text, sizeof text,
                  "%s is %.2f times as fast as bf16 (geometric mean of table 1; above %.2f wanted)",
                  name_of(how), geometric_mean(speedups), how == stored_as::int8 ? 1.35 : 1.56);
    s.remark(text);
  }
}

} // namespace

void check_experts(session& s) {
  if (!s.begin("experts"))
    return;
  const bool small = s.options().small;
  for (const stored_as how : every_storage) {
    check(s, how, {72, 40, true, true, activation::silu}, {33, 0, 3, 40, 1});
    check(s, how, {72, 40, true, true, activation::clamped_glu, 0.5F}, {33, 0, 3, 40, 1});
    if (small)
      continue;
    check(s, how, {512, 328, true, false, activation::silu}, {70, 1, 0, 200, 33, 32, 5, 129});
    check(s, how, {256, 512, false, true, activation::gelu_tanh}, {0, 0, 300});
  }
  if (!s.options().times)
    return;
  time_table_1(s);
  // Decodes and a prefill.
  const random_experts olmoe(s, stored_as::bf16, small ? 64 : 2048, small ? 32 : 1024, small ? 4 : 64);
  const std::uint32_t count = small ? 4 : 64;
  for (const std::uint32_t rows : {8U, 512U, small ? 40U : 32768U})
    time_pass(s, olmoe, dealt(s, small ? rows % 64 : rows, count, count),
              std::to_string(count) + " experts, " + std::to_string(rows) + " rows");
  const std::uint32_t rows = small ? 40 : 32768;
  time_pass(s, olmoe, dealt(s, rows, count, count),
            std::to_string(count) + " experts, " + std::to_string(rows) + " rows", true);
}

} // namespace troupe::gpu_check
