#include "kernels/router.hpp"

#include <algorithm>

#include "kernels/cpu/rows/row_ranges.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels {

namespace {

constexpr std::size_t max_top_k = 64;

// Choosing among logits takes as long as so many elements of a plain op.
constexpr std::size_t work_of_logit = 4;

// The k best of `keys`, best first; equal keys keep the order of their index. Insertion: k is small.
void choose(const float* keys, std::size_t count, std::size_t k, std::uint32_t* chosen) {
  std::size_t kept = 0;
  for (std::size_t e = 0; e < count; ++e) {
    if (kept == k && !(keys[e] > keys[chosen[k - 1]]))
      continue;
    std::size_t at = kept < k ? kept++ : k - 1;
    for (; at > 0 && keys[e] > keys[chosen[at - 1]]; --at)
      chosen[at] = chosen[at - 1];
    chosen[at] = static_cast<std::uint32_t>(e);
  }
}

// Σ in order of the slots.
float sum_of(const float* weights, std::size_t k) {
  float sum = 0.0F;
  for (std::size_t i = 0; i < k; ++i)
    sum += weights[i];
  return sum;
}

void route_row(const kernel_table& table, const router_args& args, const float* logits, float* scores,
               float* keys, std::uint32_t* chosen, float* weights) {
  const std::size_t count = args.logits.cols;
  const std::size_t k = args.top_k;
  const float* score = scores;
  switch (args.score) {
  case router_score::softmax: {
    const float sum = table.softmax_row(logits, count, scores);
    for (std::size_t e = 0; e < count; ++e)
      scores[e] /= sum;
    break;
  }
  case router_score::sigmoid:
    table.sigmoid_row(logits, count, scores);
    break;
  case router_score::softmax_of_chosen:
    score = logits;
    break;
  }
  const float* key = score;
  if (args.choice_bias != nullptr) {
    for (std::size_t e = 0; e < count; ++e)
      keys[e] = score[e] + args.choice_bias[e];
    key = keys;
  }
  choose(key, count, k, chosen);
  for (std::size_t i = 0; i < k; ++i)
    weights[i] = score[chosen[i]];
  if (args.score == router_score::softmax_of_chosen) {
    float exponentials[max_top_k];
    const float sum = table.softmax_row(weights, k, exponentials);
    for (std::size_t i = 0; i < k; ++i)
      weights[i] = exponentials[i] / sum;
  }
  if (args.renormalise) {
    const float sum = sum_of(weights, k);
    for (std::size_t i = 0; i < k; ++i)
      weights[i] /= sum;
  }
  for (std::size_t i = 0; i < k; ++i)
    weights[i] *= args.scale;
}

} // namespace

void route(context& ctx, const router_args& args) {
  const std::size_t rows = args.logits.rows;
  const std::size_t experts = args.logits.cols;
  expect(args.logits.type == dtype::f32, "route: logits are not f32");
  expect(args.top_k <= max_top_k && args.top_k <= experts, "route: top_k is above 64 or the experts");
  expect(args.experts.size() == rows * args.top_k && args.weights.size() == rows * args.top_k,
         "route: outputs are not [rows, top_k]");
  if (args.top_k == 0)
    return;
  const auto run = [&](unsigned thread, std::size_t begin, std::size_t end) {
    auto* scores = reinterpret_cast<float*>(ctx.thread_scratch(thread, 2 * experts * sizeof(float)));
    for (std::size_t r = begin; r < end; ++r)
      route_row(ctx.table(), args, args.logits.row_as<float>(r), scores, scores + experts,
                args.experts.data() + r * args.top_k, args.weights.data() + r * args.top_k);
  };
  cpu::over_row_parts(ctx, rows, rows * experts * work_of_logit >= ctx.plan().least_elements, run);
}

void build_expert_table(const expert_table_args& args) {
  expect(args.offsets.size() == args.num_experts + 1 && args.entries.size() == args.experts.size(),
         "build_expert_table: sizes of offsets or entries are wrong");
  std::fill(args.offsets.begin(), args.offsets.end(), 0);
  for (const std::uint32_t expert : args.experts) {
    expect(expert < args.num_experts, "build_expert_table: an expert is out of range");
    ++args.offsets[expert + 1];
  }
  for (std::size_t e = 0; e < args.num_experts; ++e)
    args.offsets[e + 1] += args.offsets[e];
  // Places by counting up each expert's start, then shifted back: no second array.
  for (std::size_t i = 0; i < args.experts.size(); ++i)
    args.entries[args.offsets[args.experts[i]]++] = static_cast<std::uint32_t>(i);
  for (std::size_t e = args.num_experts; e > 0; --e)
    args.offsets[e] = args.offsets[e - 1];
  args.offsets[0] = 0;
}

} // namespace troupe::kernels
