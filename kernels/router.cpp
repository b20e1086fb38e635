#include "kernels/router.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/rows/row_ranges.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels {

namespace {

constexpr std::size_t max_top_k = 64;
constexpr float lowest = -std::numeric_limits<float>::infinity();

// Choosing one logit takes as long as N elements of a plain op.
constexpr std::size_t work_of_logit = 4;

// The k best of `keys`, best first; equal keys in order of index. By insertion: k is small.
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

float rank_of(group_rank rank, const float* keys, std::size_t count) {
  float best = lowest;
  float second = lowest;
  for (std::size_t i = 0; i < count; ++i)
    if (keys[i] > best) {
      second = best;
      best = keys[i];
    } else if (keys[i] > second) {
      second = keys[i];
    }
  return rank == group_rank::largest ? best : best + second;
}

// Keys of experts outside the best groups become −∞.
void drop_groups(const expert_groups& groups, std::size_t experts, float* keys) {
  const std::size_t size = experts / groups.count;
  float ranks[most_expert_groups];
  std::uint32_t kept[most_expert_groups];
  bool stays[most_expert_groups] = {};
  for (std::size_t g = 0; g < groups.count; ++g)
    ranks[g] = rank_of(groups.rank, keys + g * size, size);
  choose(ranks, groups.count, groups.kept, kept);
  for (std::size_t i = 0; i < groups.kept; ++i)
    stays[kept[i]] = true;
  for (std::size_t g = 0; g < groups.count; ++g)
    if (!stays[g])
      std::fill_n(keys + g * size, size, lowest);
}

// The softmax of the logits near the best one, then of those near the second one without the best; each at
// its best.
void mix_sparsely(const kernel_table& table, const router_args& args, const float* logits, float* scores,
                  float* keys, std::uint32_t* chosen, float* weights) {
  const std::size_t count = args.logits.cols;
  choose(logits, count, 2, chosen);
  for (std::size_t i = 0; i < 2; ++i) {
    const float most = logits[chosen[i]];
    for (std::size_t e = 0; e < count; ++e) {
      const float apart = (most - logits[e]) / std::max(std::abs(logits[e]), most);
      keys[e] = apart > 2.0F * args.jitter || (i == 1 && e == chosen[0]) ? lowest : logits[e];
    }
    const float sum = table.softmax_row(keys, count, scores);
    weights[i] = scores[chosen[i]] / sum;
  }
}

// Σ in order of the slots.
float sum_of(const float* weights, std::size_t k) {
  float sum = 0.0F;
  for (std::size_t i = 0; i < k; ++i)
    sum += weights[i];
  return sum;
}

// Scores of all experts; for softmax_of_chosen the logits.
const float* score_row(const kernel_table& table, const router_args& args, const float* logits,
                       float* scores) {
  const std::size_t count = args.logits.cols;
  switch (args.score) {
  case router_score::softmax: {
    const float sum = table.softmax_row(logits, count, scores);
    for (std::size_t e = 0; e < count; ++e)
      scores[e] /= sum;
    return scores;
  }
  case router_score::sigmoid:
    table.sigmoid_row(logits, count, scores);
    return scores;
  case router_score::softmax_of_chosen:
  case router_score::sparsemixer:
    break;
  }
  return logits;
}

void choose_by_score(const kernel_table& table, const router_args& args, const float* logits, float* scores,
                     float* keys, std::uint32_t* chosen, float* weights) {
  const std::size_t count = args.logits.cols;
  const std::size_t k = args.top_k;
  const float* score = score_row(table, args, logits, scores);
  const float* key = score;
  if (args.choice_bias != nullptr || args.groups.count > 1) {
    for (std::size_t e = 0; e < count; ++e)
      keys[e] = args.choice_bias != nullptr ? score[e] + args.choice_bias[e] : score[e];
    if (args.groups.count > 1)
      drop_groups(args.groups, count, keys);
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
}

void route_row(const kernel_table& table, const router_args& args, const float* logits, float* scores,
               float* keys, std::uint32_t* chosen, float* weights) {
  const std::size_t k = args.top_k;
  if (args.score == router_score::sparsemixer)
    mix_sparsely(table, args, logits, scores, keys, chosen, weights);
  else
    choose_by_score(table, args, logits, scores, keys, chosen, weights);
  if (args.renormalise) {
    const float sum = std::max(sum_of(weights, k) + args.sum_offset, args.least_sum);
    for (std::size_t i = 0; i < k; ++i)
      weights[i] /= sum;
  }
  for (std::size_t i = 0; i < k; ++i)
    weights[i] *= args.scale;
}

void check(const router_args& args) {
  const std::size_t rows = args.logits.rows;
  const std::size_t experts = args.logits.cols;
  const expert_groups& groups = args.groups;
  expect(args.logits.type == dtype::f32, "route: logits are not f32");
  expect(args.top_k <= max_top_k && args.top_k <= experts, "route: top_k is above 64 or the experts");
  expect(args.experts.size() == rows * args.top_k && args.weights.size() == rows * args.top_k,
         "route: outputs are not [rows, top_k]");
  expect(groups.fit(experts, args.top_k),
         "route: groups are unequal, or those kept have fewer than top_k experts");
  expect(args.score != router_score::sparsemixer
             || (args.top_k == 2 && args.choice_bias == nullptr && groups.count == 1),
         "route: sparsemixer chooses two experts, without bias and groups");
}

} // namespace

void route(context& ctx, const router_args& args) {
  check(args);
  const std::size_t rows = args.logits.rows;
  const std::size_t experts = args.logits.cols;
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
  // Uses each expert's start as its counter, then shifts back: no second array.
  for (std::size_t i = 0; i < args.experts.size(); ++i)
    args.entries[args.offsets[args.experts[i]]++] = static_cast<std::uint32_t>(i);
  for (std::size_t e = args.num_experts; e > 0; --e)
    args.offsets[e] = args.offsets[e - 1];
  args.offsets[0] = 0;
}

} // namespace troupe::kernels
