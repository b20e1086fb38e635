#include <cmath>

#include "kernels/cuda/router.hpp"
#include "kernels/router.hpp"
#include "tests/gpu/cases.hpp"

namespace troupe::gpu_check {

namespace {

using namespace kernels;

struct variant {
  std::size_t rows;
  std::size_t experts;
  std::size_t top_k;
  router_score score;
  bool renormalise;
  bool biased;
};

const char* text(router_score score) {
  switch (score) {
  case router_score::softmax:
    return "softmax";
  case router_score::softmax_of_chosen:
    return "softmax of chosen";
  case router_score::sigmoid:
    return "sigmoid";
  }
  return "?";
}

// From logits, which both sides share: the same experts, weights up to the last bits of exp.
void compare_choice(session& s, const variant& v, const std::vector<float>& logits, const float* choice_bias,
                    const device_array<std::uint32_t>& chosen, const device_array<float>& weights,
                    const std::string& what) {
  std::vector<std::uint32_t> want(v.rows * v.top_k);
  std::vector<float> want_weights(v.rows * v.top_k);
  route(s.cpu(), {.logits = view_of(logits.data(), v.rows, v.experts),
                  .top_k = v.top_k,
                  .score = v.score,
                  .renormalise = v.renormalise,
                  .scale = 1.5F,
                  .choice_bias = choice_bias,
                  .experts = want,
                  .weights = want_weights});
  s.compare_exact(what + ", experts", chosen.download(s.on()), want);
  s.compare(what + ", weights", weights.download(s.on()), want_weights, tolerance_f32(v.experts));
}

void check(session& s, const variant& v, bool from_logits) {
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
  const auto weight = s.normal_bf16(v.experts * hidden, 0.05F);
  const device_array<bfloat16> x(s.on(), input);
  const device_array<bfloat16> w(s.on(), weight);
  const device_array<std::uint32_t> chosen(s.on(), v.rows * v.top_k);
  const device_array<float> weights(s.on(), v.rows * v.top_k);
  cuda::route(s.on(), {.rows = v.rows,
                       .experts = v.experts,
                       .input = x.data(),
                       .input_stride = hidden,
                       .hidden = hidden,
                       .weight = from_logits ? nullptr : w.data(),
                       .logits = device_logits.data(),
                       .top_k = v.top_k,
                       .score = v.score,
                       .renormalise = v.renormalise,
                       .scale = 1.5F,
                       .choice_bias = v.biased ? device_bias.data() : nullptr,
                       .chosen = chosen.data(),
                       .weights = weights.data()});
  const std::string what = std::string(text(v.score)) + " " + std::to_string(v.rows) + " rows, "
                           + std::to_string(v.top_k) + " of " + std::to_string(v.experts)
                           + (from_logits ? "" : ", fused");
  if (!from_logits) {
    std::vector<float> want(v.rows * v.experts);
    for (std::size_t r = 0; r < v.rows; ++r)
      for (std::size_t e = 0; e < v.experts; ++e) {
        double sum = 0.0;
        for (std::size_t i = 0; i < hidden; ++i)
          sum += static_cast<double>(to_float(input[r * hidden + i]))
                 * static_cast<double>(to_float(weight[e * hidden + i]));
        want[r * v.experts + e] = static_cast<float>(sum);
      }
    logits = device_logits.download(s.on());
    s.compare(what + ", logits", logits, want, tolerance_f32(hidden));
  }
  compare_choice(s, v, logits, v.biased ? bias.data() : nullptr, chosen, weights, what);
}

void time_router(session& s, std::size_t rows) {
  const std::size_t hidden = s.options().small ? 64 : 2048;
  const std::size_t experts = s.options().small ? 8 : 64;
  const device_array<bfloat16> x(s.on(), s.normal_bf16(rows * hidden));
  const device_array<bfloat16> w(s.on(), s.normal_bf16(experts * hidden));
  const device_array<std::uint32_t> chosen(s.on(), rows * 8);
  const device_array<float> weights(s.on(), rows * 8);
  s.time("route, fused, " + std::to_string(rows) + " x " + std::to_string(hidden) + ", 8 of "
             + std::to_string(experts),
         {.bytes = static_cast<double>(2 * hidden * (rows + experts)), .flops = 0.0}, 1, [&](std::size_t) {
           cuda::route(s.on(), {.rows = rows,
                                .experts = experts,
                                .input = x.data(),
                                .input_stride = hidden,
                                .hidden = hidden,
                                .weight = w.data(),
                                .top_k = 8,
                                .chosen = chosen.data(),
                                .weights = weights.data()});
         });
}

} // namespace

void check_router(session& s) {
  if (!s.begin("router"))
    return;
  std::vector<variant> variants = {{2, 8, 2, router_score::softmax, true, false},
                                   {3, 37, 6, router_score::softmax, false, true},
                                   {1, 40, 8, router_score::sigmoid, true, true},
                                   {2, 33, 4, router_score::softmax_of_chosen, false, false},
                                   {1, 5, 5, router_score::softmax_of_chosen, true, false},
                                   {1, 1, 1, router_score::softmax, false, false}};
  if (!s.options().small)
    variants.insert(variants.end(), {{130, 64, 8, router_score::softmax, false, false},
                                     {17, 256, 8, router_score::sigmoid, true, true},
                                     {5, 1024, 64, router_score::softmax, true, false}});
  for (const variant& v : variants)
    for (const bool from_logits : {true, false})
      check(s, v, from_logits);
  time_router(s, 1);
  time_router(s, s.options().small ? 3 : 64);
}

} // namespace troupe::gpu_check
