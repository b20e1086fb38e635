#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cuda/router.hpp"
#include "kernels/router.hpp"
#include "tests/gpu/cases.hpp"
#include "tests/gpu/expert_choice.hpp"

namespace troupe::gpu_check {

namespace {

using namespace kernels;

struct router_variant {
  std::size_t rows;
  std::size_t experts;
  std::size_t top_k;
  router_score score;
  bool renormalise;
  bool biased;
  expert_groups groups{};
};

// As DeepSeek-V3's and ERNIE's, but large enough to be seen.
constexpr float sum_offset = 0.25F;
constexpr float least_sum = 0.5F;
constexpr float jitter = 0.1F;

const char* text(router_score score) {
  switch (score) {
  case router_score::softmax:
    return "softmax";
  case router_score::softmax_of_chosen:
    return "softmax of chosen";
  case router_score::sigmoid:
    return "sigmoid";
  case router_score::sparsemixer:
    return "sparsemixer";
  }
  return "?";
}

// From logits, which both sides share: the same experts and weights, up to the last bits of exp.
void compare_choice(session& s, const router_variant& v, const std::vector<float>& logits,
                    const float* choice_bias, const device_array<std::uint32_t>& chosen,
                    const device_array<float>& weights, const std::string& what) {
  std::vector<std::uint32_t> want(v.rows * v.top_k);
  std::vector<float> want_weights(v.rows * v.top_k);
  route(s.cpu(), {.logits = view_of(logits.data(), v.rows, v.experts),
                  .top_k = v.top_k,
                  .score = v.score,
                  .jitter = jitter,
                  .renormalise = v.renormalise,
                  .sum_offset = v.groups.count > 1 ? sum_offset : 0.0F,
                  .least_sum = v.groups.count > 1 ? least_sum : 0.0F,
                  .scale = 1.5F,
                  .choice_bias = choice_bias,
                  .groups = v.groups,
                  .experts = want,
                  .weights = want_weights});
  const auto got = chosen.download(s.on());
  std::size_t others = 0;
  for (std::size_t r = 0; r < v.rows; ++r) {
    const auto of_row = [&](const auto& all, std::size_t width) {
      return std::span(all).subspan(r * width, width);
    };
    const auto mine = of_row(got, v.top_k);
    if (std::ranges::equal(mine, of_row(want, v.top_k)))
      continue;
    const auto scores = expert_scores(of_row(logits, v.experts), v.score);
    auto keys = scores;
    for (std::size_t e = 0; choice_bias != nullptr && e < v.experts; ++e)
      keys[e] += static_cast<double>(choice_bias[e]);
    if (is_same_choice(mine, of_row(want, v.top_k), keys, nearness_of(v.score)))
      std::ranges::copy(weights_of(mine, scores, v.renormalise, 1.5),
                        want_weights.begin() + static_cast<std::ptrdiff_t>(r * v.top_k));
    else
      ++others;
  }
  s.note(what + ", experts", others == 0, std::to_string(others) + " rows have others");
  s.compare(what + ", weights", weights.download(s.on()), want_weights, tolerance_f32(v.experts));
}

enum class logits_from : std::uint8_t { caller, bf16_weights, f32_weights };

void check(session& s, const router_variant& v, logits_from source) {
  const bool from_logits = source == logits_from::caller;
  const bool wide = source == logits_from::f32_weights; // with a bias
  const std::size_t hidden = s.options().small ? 264 : 2048;
  auto logits = s.normal(v.rows * v.experts, 2.0F);
  if (v.experts > 3) // ties
    for (std::size_t r = 0; r < v.rows; ++r)
      logits[r * v.experts + 3] = logits[r * v.experts + 1];
  const auto bias = s.normal(v.experts, 0.1F);
  const device_array<float> device_bias(s.on(), bias);
  const auto device_logits =
      from_logits ? device_array<float>(s.on(), logits) : device_array<float>(s.on(), logits.size());
  const auto input = s.normal_bf16(v.rows * hidden);
  const auto weight = s.normal(v.experts * hidden, 0.05F);
  std::vector<bfloat16> narrow_weight(weight.size());
  std::ranges::transform(weight, narrow_weight.begin(), to_bfloat16);
  const auto logit_bias = s.normal(v.experts);
  const device_array<bfloat16> x(s.on(), input);
  const device_array<float> wide_w(s.on(), weight);
  const device_array<bfloat16> narrow_w(s.on(), narrow_weight);
  const device_array<float> device_logit_bias(s.on(), logit_bias);
  const device_array<std::uint32_t> chosen(s.on(), v.rows * v.top_k);
  const device_array<float> weights(s.on(), v.rows * v.top_k);
  cuda::route(s.on(), {.rows = v.rows,
                       .experts = v.experts,
                       .input = x.data(),
                       .input_stride = hidden,
                       .hidden = hidden,
                       .weight = from_logits ? nullptr
                                 : wide      ? static_cast<const void*>(wide_w.data())
                                             : narrow_w.data(),
                       .weight_type = wide ? dtype::f32 : dtype::bf16,
                       .bias = wide ? device_logit_bias.data() : nullptr,
                       .logits = device_logits.data(),
                       .top_k = v.top_k,
                       .score = v.score,
                       .jitter = jitter,
                       .renormalise = v.renormalise,
                       .sum_offset = v.groups.count > 1 ? sum_offset : 0.0F,
                       .least_sum = v.groups.count > 1 ? least_sum : 0.0F,
                       .scale = 1.5F,
                       .choice_bias = v.biased ? device_bias.data() : nullptr,
                       .groups = v.groups,
                       .chosen = chosen.data(),
                       .weights = weights.data()});
  const std::string what = std::string(text(v.score)) + " " + std::to_string(v.rows) + " rows, "
                           + std::to_string(v.top_k) + " of " + std::to_string(v.experts)
                           + (from_logits ? ""
                              : wide      ? ", fused, f32"
                                          : ", fused")
                           + (v.groups.count > 1 ? ", in groups" : "");
  if (!from_logits) {
    std::vector<float> want(v.rows * v.experts);
    for (std::size_t r = 0; r < v.rows; ++r)
      for (std::size_t e = 0; e < v.experts; ++e) {
        double sum = wide ? static_cast<double>(logit_bias[e]) : 0.0;
        for (std::size_t i = 0; i < hidden; ++i) {
          const std::size_t at = e * hidden + i;
          sum += static_cast<double>(to_float(input[r * hidden + i]))
                 * static_cast<double>(wide ? weight[at] : to_float(narrow_weight[at]));
        }
        want[r * v.experts + e] = static_cast<float>(sum);
      }
    logits = device_logits.download(s.on());
    s.compare(what + ", logits", logits, want, tolerance_f32(hidden));
  }
  compare_choice(s, v, logits, v.biased ? bias.data() : nullptr, chosen, weights, what);
}

// Many rows at once, which share loads of weights, and the same a few at a time: the same bits; and nothing
// past the last row is written.
void check_batches(session& s, std::size_t rows, std::size_t experts, std::size_t hidden,
                   dtype weight_type = dtype::bf16) {
  constexpr std::size_t top_k = 3;
  const std::size_t stride = hidden + 8;
  const device_array<bfloat16> x(s.on(), s.normal_bf16(rows * stride));
  const device_array<bfloat16> narrow_w(s.on(), s.normal_bf16(experts * hidden, 0.05F));
  const device_array<float> wide_w(s.on(), s.normal(experts * hidden, 0.05F));

  struct output {
    std::vector<float> logits;
    std::vector<std::uint32_t> chosen;
    std::vector<float> weights;
  };

  const auto run = [&](std::size_t at_once) {
    const device_array<float> logits(s.on(), (rows + 1) * experts);
    const device_array<std::uint32_t> chosen(s.on(), (rows + 1) * top_k);
    const device_array<float> weights(s.on(), (rows + 1) * top_k);
    for (std::size_t first = 0; first < rows; first += at_once)
      cuda::route(s.on(), {.rows = std::min(at_once, rows - first),
                           .experts = experts,
                           .input = x.data() + first * stride,
                           .input_stride = stride,
                           .hidden = hidden,
                           .weight = weight_type == dtype::f32 ? static_cast<const void*>(wide_w.data())
                                                               : narrow_w.data(),
                           .weight_type = weight_type,
                           .logits = logits.data() + first * experts,
                           .top_k = top_k,
                           .chosen = chosen.data() + first * top_k,
                           .weights = weights.data() + first * top_k});
    return output{logits.download(s.on()), chosen.download(s.on()), weights.download(s.on())};
  };
  const auto bits_of = [](const std::vector<float>& values) {
    std::vector<std::uint32_t> bits(values.size());
    std::ranges::transform(values, bits.begin(),
                           [](float value) { return std::bit_cast<std::uint32_t>(value); });
    return bits;
  };
  const output together = run(rows);
  const output apart = run(5);
  const std::string what = std::to_string(rows) + " rows together and apart, weights " + name_of(weight_type);
  s.compare_exact(what + ", logits", bits_of(together.logits), bits_of(apart.logits));
  s.compare_exact(what + ", experts", together.chosen, apart.chosen);
  s.compare_exact(what + ", weights", bits_of(together.weights), bits_of(apart.weights));
  const auto is_untouched = [](float value) { return std::bit_cast<std::uint32_t>(value) == 0xffffffffU; };
  const std::span behind = std::span(together.logits).subspan(rows * experts);
  s.note(what + ", behind the last row", std::ranges::all_of(behind, is_untouched), "logits were written");
}

void time_router(session& s, std::size_t rows) {
  const std::size_t hidden = s.options().small ? 64 : 2048;
  const std::size_t experts = s.options().small ? 8 : 64;
  const device_array<bfloat16> x(s.on(), s.normal_bf16(rows * hidden));
  const device_array<bfloat16> w(s.on(), s.normal_bf16(experts * hidden));
  const device_array<std::uint32_t> chosen(s.on(), rows * 8);
  const device_array<float> weights(s.on(), rows * 8);
  const device_array<float> logits(s.on(), rows * experts);
  s.time("route, fused, " + std::to_string(rows) + " x " + std::to_string(hidden) + ", 8 of "
             + std::to_string(experts),
         {.bytes = static_cast<double>(2 * hidden * (rows + experts)), .flops = 0.0}, 1, [&](std::size_t) {
           cuda::route(s.on(), {.rows = rows,
                                .experts = experts,
                                .input = x.data(),
                                .input_stride = hidden,
                                .hidden = hidden,
                                .weight = w.data(),
                                .logits = logits.data(),
                                .top_k = 8,
                                .chosen = chosen.data(),
                                .weights = weights.data()});
         });
}

} // namespace

void check_router(session& s) {
  if (!s.begin("router"))
    return;
  std::vector<router_variant> variants = {
      {2, 8, 2, router_score::softmax, true, false},
      {3, 37, 6, router_score::softmax, false, true},
      {1, 40, 8, router_score::sigmoid, true, true},
      {2, 33, 4, router_score::softmax_of_chosen, false, false},
      {1, 5, 5, router_score::softmax_of_chosen, true, false},
      {9, 1, 1, router_score::softmax, false, false},
      {4, 16, 2, router_score::sparsemixer, false, false},
      {3, 16, 1, router_score::sigmoid, false, false},
      {3, 40, 6, router_score::softmax, true, false, {.count = 8, .kept = 3, .rank = group_rank::largest}},
      {4, 36, 5, router_score::sigmoid, true, true, {.count = 6, .kept = 2, .rank = group_rank::sum_of_two}}};
  if (!s.options().small)
    variants.insert(variants.end(), {{130, 64, 8, router_score::softmax, false, false},
                                     {17, 256, 8, router_score::sigmoid, true, true},
                                     {17,
                                      256,
                                      8,
                                      router_score::sigmoid,
                                      true,
                                      true,
                                      {.count = 8, .kept = 4, .rank = group_rank::sum_of_two}},
                                     {65, 16, 2, router_score::sparsemixer, false, false},
                                     {5, 1024, 64, router_score::softmax, true, false}});
  for (const router_variant& v : variants)
    for (const auto source : {logits_from::caller, logits_from::bf16_weights, logits_from::f32_weights})
      check(s, v, source);
  for (const dtype type : {dtype::bf16, dtype::f32})
    check_batches(s, 67, 13, 264, type);
  check_batches(s, 64, 8, 512);
  if (!s.options().small)
    check_batches(s, 301, 64, 2880);
  if (!s.options().times)
    return;
  time_router(s, 1);
  time_router(s, s.options().small ? 3 : 64);
}

} // namespace troupe::gpu_check
