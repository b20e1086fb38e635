#include "kernels/known_logits.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/context.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/error.hpp"
#include "kernels/logit_changes.hpp"
#include "kernels/raw_distribution.hpp"
#include "kernels/token_choice.hpp"

namespace troupe::kernels {

namespace {

constexpr float lowest = -std::numeric_limits<float>::infinity();

// How much a sum of all shares may differ from the sum in order of id, relative to it: each addition rounds
// by 2⁻⁵³ at most, in either order; doubled for safety.
double slack_of(std::size_t vocab) {
  return static_cast<double>(vocab) * 0x1p-51;
}

// Neighbouring values of exp may be in the wrong order by a few units of 2⁻²⁴.
constexpr float exp_slack = 1.0F + 1e-5F;

// Tokens that may be chosen, in order of id, with their changed logits, and what is unknown about the others.
class row_part {
 public:
  row_part(const context& ctx, const known_logits& known, const sampling_row& row,
           std::span<const std::uint32_t> changed, known_scratch& scratch)
      : table_(ctx.table()), known_(known), row_(row), changed_(changed), scratch_(scratch) {
    // If only some are allowed, the others are −infinity.
    const bool others_count = row.allowed.empty();
    is_whole_ = !others_count || known.top.size() == known.vocab;
    floor_ = is_whole_ ? lowest : known.top.back().logit;
    scratch.changed.clear();
    scratch.logits.assign(known.changed.begin(), known.changed.end());
    if (!changed.empty())
      change_logits(row, changed, scratch.logits.data(), known.vocab);
    auto& all = scratch.changed;
    for (std::size_t i = 0; i < changed.size(); ++i)
      all.push_back({changed[i], scratch.logits[i]});
    if (others_count)
      std::copy_if(known.top.begin(), known.top.end(), std::back_inserter(all),
                   [&](const token_logit& entry) {
                     return !std::binary_search(changed.begin(), changed.end(), entry.token);
                   });
    std::sort(all.begin(), all.end(),
              [](const token_logit& a, const token_logit& b) { return a.token < b.token; });
    scratch.tokens.resize(all.size());
    scratch.logits.resize(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      scratch.tokens[i] = all[i].token;
      scratch.logits[i] = all[i].logit;
    }
  }

  std::optional<std::uint32_t> choose() {
    const auto& logits = scratch_.logits;
    if (std::any_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); }))
      return std::nullopt;
    const auto best = std::max_element(logits.begin(), logits.end()); // the first of equals
    if (best == logits.end() || !std::isfinite(*best) || *best < floor_)
      return std::nullopt;
    if (is_greedy(row_.params.temperature))
      return scratch_.tokens[static_cast<std::size_t>(best - logits.begin())];
    return draw(*best);
  }

 private:
  std::optional<std::uint32_t> draw(float best) {
    const auto& p = row_.params;
    const float factor = 1.0F / p.temperature;
    const auto count = scratch_.logits.size();
    scratch_.shares.resize(count);
    scratch_.keys.resize(2 * count);
    if (!std::isfinite(table_.exp_sum(scratch_.logits.data(), best, factor, count, scratch_.shares.data())))
      return std::nullopt;
    const token_shares part{scratch_.logits.data(), scratch_.shares.data(), count, best, p.temperature};
    const double uniform = uniform_at(row_.key);
    const bool filters_k = has_top_k(p.top_k, known_.vocab);
    if (all_are_known(best, factor) || (filters_k && num_kept() >= p.top_k))
      return scratch_
          .tokens[choose_token(part, {filters_k ? p.top_k : 0, p.top_p, p.min_p}, uniform, scratch_.keys)];
    if (filters_k || !changed_.empty() || known_.share_sums.empty())
      return std::nullopt;
    if (p.top_p < 1.0F)
      return draw_top_p(part, uniform);
    return draw_from_all(best, factor, uniform);
  }

  // Whether min-p, or FP32's range, excludes all unknown tokens.
  bool all_are_known(float best, float factor) const {
    if (is_whole_)
      return true;
    float share = 0.0F;
    table_.exp_sum(&floor_, best, factor, 1, &share);
    return share * exp_slack < least_share(row_.params.min_p);
  }

  // Known tokens that are kept and better than all unknown ones.
  std::size_t num_kept() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < scratch_.logits.size(); ++i)
      count += scratch_.logits[i] >= floor_ && scratch_.shares[i] >= least_share(row_.params.min_p) ? 1 : 0;
    return count;
  }

  std::optional<std::uint32_t> draw_top_p(const token_shares& part, double uniform) {
    const double sum = std::accumulate(known_.share_sums.begin(), known_.share_sums.end(), 0.0);
    const double wanted = static_cast<double>(row_.params.top_p) * sum;
    const double slack = slack_of(known_.vocab) * sum;
    const auto chosen =
        choose_among_best(part, row_.params.min_p, wanted - slack, wanted + slack, uniform, scratch_.keys);
    return chosen ? std::optional(scratch_.tokens[*chosen]) : std::nullopt;
  }

  std::optional<std::uint32_t> draw_from_all(float best, float factor, double uniform) {
    const auto& sums = known_.share_sums;
    const double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
    const double target = uniform * sum;
    const double slack = slack_of(known_.vocab) * sum;
    double so_far =
        std::accumulate(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(known_.drawn_block), 0.0);
    auto& shares = scratch_.shares;
    shares.resize(known_.drawn.size());
    table_.exp_sum(known_.drawn.data(), best, factor, shares.size(), shares.data());
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const double before = so_far;
      so_far += shares[i] >= least_share(row_.params.min_p) ? static_cast<double>(shares[i]) : 0.0;
      if (so_far <= target - slack)
        continue;
      // It is this token if the sum certainly exceeds the draw here, and certainly did not before.
      if (so_far > target + slack && (before == 0.0 || before <= target - slack))
        return static_cast<std::uint32_t>(known_.drawn_block * share_block + i);
      return std::nullopt;
    }
    return std::nullopt;
  }

  const kernel_table& table_;
  const known_logits& known_;
  const sampling_row& row_;
  std::span<const std::uint32_t> changed_;
  known_scratch& scratch_;
  bool is_whole_ = false;
  float floor_ = lowest; // all unknown tokens are below it
};

// A token's unchanged logit.
std::optional<float> raw_logit(const known_logits& known, std::span<const std::uint32_t> changed,
                               std::uint32_t token) {
  if (const auto found = std::lower_bound(changed.begin(), changed.end(), token);
      found != changed.end() && *found == token)
    return known.changed[static_cast<std::size_t>(found - changed.begin())];
  if (const std::size_t first = known.drawn_block * share_block;
      token >= first && token - first < known.drawn.size())
    return known.drawn[token - first];
  for (const token_logit& entry : known.top)
    if (entry.token == token)
      return entry.logit;
  return std::nullopt;
}

std::optional<known_choice> describe(const known_logits& known, const raw_distribution& raw,
                                     std::uint32_t token, float logit, std::uint32_t wanted,
                                     std::span<token_logprob> top) {
  const std::size_t count = std::min<std::size_t>(wanted, known.vocab);
  expect(top.size() >= count, "sample: no room for the top logprobs");
  if (count > known.top.size())
    return std::nullopt;
  known_choice result{.token = {.token = token, .logprob = raw.logprob(logit)}, .logit = logit};
  for (std::size_t i = 0; i < count; ++i)
    top[i] = {known.top[i].token, raw.logprob(known.top[i].logit)};
  result.token.num_top = static_cast<std::uint32_t>(count);
  result.has_rank = known.top.size() == known.vocab || logit >= known.top.back().logit;
  if (result.has_rank)
    result.token.rank = static_cast<std::uint32_t>(std::count_if(
        known.top.begin(), known.top.end(), [&](const token_logit& entry) { return entry.logit >= logit; }));
  return result;
}

} // namespace

bool draws_from_all(const sampling_row& row, std::size_t vocab) {
  return !is_greedy(row.params.temperature) && !has_top_k(row.params.top_k, vocab) && !changes_logits(row);
}

std::optional<known_choice> sample_known(const context& ctx, const known_logits& known,
                                         const sampling_row& row, std::span<const std::uint32_t> changed,
                                         known_scratch& scratch) {
  const auto raw = raw_distribution::of(known.best, known.exp_sum);
  if (raw.sick())
    return known_choice{.token = sick_token(0)};
  if (known.top.empty())
    return std::nullopt;
  const auto token = row_part(ctx, known, row, changed, scratch).choose();
  if (!token)
    return std::nullopt;
  const auto logit = raw_logit(known, changed, *token);
  return logit ? describe(known, raw, *token, *logit, row.num_logprobs, row.top) : std::nullopt;
}

std::optional<known_choice> known_logprob(const known_logits& known, const logprob_row& row, float logit) {
  const auto raw = raw_distribution::of(known.best, known.exp_sum);
  if (raw.sick())
    return known_choice{.token = sick_token(row.token)};
  if (known.top.empty())
    return std::nullopt;
  return describe(known, raw, row.token, logit, row.num_logprobs, row.top);
}

} // namespace troupe::kernels
