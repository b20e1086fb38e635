#include "kernels/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/context.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/error.hpp"
#include "kernels/logit_changes.hpp"
#include "kernels/raw_distribution.hpp"
#include "kernels/token_choice.hpp"

namespace troupe::kernels {

namespace {

raw_distribution distribution_of(const kernel_table& table, const float* logits, std::size_t vocab) {
  const float best = table.max_row(logits, vocab);
  return raw_distribution::of(best, table.exp_sum(logits, best, 1.0F, vocab, nullptr));
}

// Writes the best `wanted` tokens: a heap of the kept ones, the worst on top.
std::uint32_t write_top(const raw_distribution& raw, const float* logits, std::size_t vocab,
                        std::uint32_t wanted, std::span<token_logprob> top) {
  expect(top.size() >= std::min<std::size_t>(wanted, vocab), "sample: no room for the top logprobs");
  const std::size_t count = std::min<std::size_t>(wanted, vocab);
  if (count == 0)
    return 0;
  const auto order = [](const token_logprob& a, const token_logprob& b) {
    return a.logprob > b.logprob || (a.logprob == b.logprob && a.token < b.token);
  };
  // Entries hold logits until the end; a later token of equal logit never displaces an earlier one.
  std::size_t kept = 0;
  for (std::uint32_t token = 0; token < vocab; ++token) {
    const float logit = logits[token];
    if (kept == count) {
      if (!(logit > top[0].logprob))
        continue;
      std::pop_heap(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(kept--), order);
    }
    top[kept++] = {token, logit};
    std::push_heap(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(kept), order);
  }
  std::sort_heap(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(kept), order);
  for (std::size_t i = 0; i < kept; ++i)
    top[i].logprob = raw.logprob(top[i].logprob);
  return static_cast<std::uint32_t>(kept);
}

// How many tokens have at least that logit; in lanes, so that compilers can vectorise.
std::uint32_t rank_of(const float* logits, std::size_t vocab, float logit) {
  std::array<std::uint32_t, 16> counts{};
  std::size_t i = 0;
  for (; i + counts.size() <= vocab; i += counts.size())
    for (std::size_t j = 0; j < counts.size(); ++j)
      counts[j] += logits[i + j] >= logit ? 1U : 0U;
  for (; i < vocab; ++i)
    counts[0] += logits[i] >= logit ? 1U : 0U;
  return std::accumulate(counts.begin(), counts.end(), 0U);
}

sampled_token describe(const raw_distribution& raw, const float* logits, std::size_t vocab,
                       std::uint32_t token, std::uint32_t wanted, std::span<token_logprob> top) {
  if (raw.sick())
    return sick_token(token);
  const float logit = logits[token];
  return {.token = token,
          .logprob = raw.logprob(logit),
          .rank = rank_of(logits, vocab, logit),
          .num_top = write_top(raw, logits, vocab, wanted, top)};
}

std::uint32_t first_best(const kernel_table& table, const float* logits, std::size_t vocab) {
  const float best = table.max_row(logits, vocab);
  for (std::size_t i = 0; i < vocab; ++i)
    if (logits[i] == best)
      return static_cast<std::uint32_t>(i);
  return 0;
}

// For a distribution that is NaN, token 0.
std::uint32_t draw(const kernel_table& table, const sampling_row& row, const float* logits, std::size_t vocab,
                   float* shares, std::span<std::uint64_t> scratch) {
  const sampling_params& p = row.params;
  const float max = table.max_row(logits, vocab);
  if (!std::isfinite(table.exp_sum(logits, max, 1.0F / p.temperature, vocab, shares)))
    return 0;
  return choose_token({logits, shares, vocab, max, p.temperature}, {p.top_k, p.top_p, p.min_p},
                      uniform_at(row.key), scratch);
}

sampled_token sample_row(context& ctx, unsigned thread, const_tensor_view all, const sampling_row& row) {
  const kernel_table& table = ctx.table();
  const std::size_t vocab = all.cols;
  const auto* raw_logits = all.row_as<float>(row.logits_row);
  const raw_distribution raw = distribution_of(table, raw_logits, vocab);
  if (raw.sick())
    return sick_token(0);
  // Keys of tokens, shares, changed logits.
  std::byte* scratch = ctx.thread_scratch(thread, vocab * (2 * sizeof(std::uint64_t) + 2 * sizeof(float)));
  auto* keys = reinterpret_cast<std::uint64_t*>(scratch);
  auto* shares = reinterpret_cast<float*>(keys + 2 * vocab);
  const float* logits = raw_logits;
  if (changes_logits(row)) {
    float* changed = shares + vocab;
    change_logits(row, raw_logits, changed, vocab);
    logits = changed;
  }
  const std::uint32_t token = is_greedy(row.params.temperature)
                                  ? first_best(table, logits, vocab)
                                  : draw(table, row, logits, vocab, shares, {keys, 2 * vocab});
  return describe(raw, raw_logits, vocab, token, row.num_logprobs, row.top);
}

void check(const_tensor_view logits, std::size_t rows, std::size_t out) {
  expect(logits.type == dtype::f32, "sample: logits are not f32");
  expect(logits.cols != 0, "sample: the vocabulary is empty");
  expect(rows == out, "sample: rows and outputs differ in number");
}

} // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

double uniform_at(const draw_key& key) {
  const auto words =
      philox4x32({key.position, key.choice, key.draw, 0},
                 {static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)});
  return (static_cast<double>(words[0] >> 5) * 67108864.0 + static_cast<double>(words[1] >> 6))
         * (1.0 / 9007199254740992.0);
}

void sample(context& ctx, const_tensor_view logits, std::span<const sampling_row> rows,
            std::span<sampled_token> out) {
  check(logits, rows.size(), out.size());
  for (const sampling_row& row : rows)
    expect(row.logits_row < logits.rows, "sample: a row names no logits");
  ctx.pool().parallel_dynamic(rows.size(), 1, [&](unsigned thread, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      out[i] = sample_row(ctx, thread, logits, rows[i]);
  });
}

void token_logprobs(context& ctx, const_tensor_view logits, std::span<const logprob_row> rows,
                    std::span<sampled_token> out) {
  check(logits, rows.size(), out.size());
  for (const logprob_row& row : rows)
    expect(row.logits_row < logits.rows && row.token < logits.cols,
           "token_logprobs: a row or token is out of range");
  ctx.pool().parallel_dynamic(rows.size(), 1, [&](unsigned, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const auto* row = logits.row_as<float>(rows[i].logits_row);
      out[i] = describe(distribution_of(ctx.table(), row, logits.cols), row, logits.cols, rows[i].token,
                        rows[i].num_logprobs, rows[i].top);
    }
  });
}

} // namespace troupe::kernels
