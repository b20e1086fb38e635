#include "actors/scheduler/answer_lengths.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe {

namespace {

/// An answer counts half after this many newer ones: few enough to follow changes of the requests, and many
/// enough for the tail of the lengths.
constexpr double half_life = 256;
const auto decay = static_cast<float>(std::exp2(-1 / half_life));

/// Rounding error of a length in floating point.
constexpr double rounding = 1e-6;

/// Share of the answers that have at most `prior_tokens`, before any is seen.
constexpr double prior_share = defaults::admission_quantile;

/// Prior knowledge counts as much as this number of answers.
constexpr double weight_otherwise = 4;

} // namespace

answer_lengths::answer_lengths(settings wanted) : settings_(wanted), likely_(wanted.prior_tokens) {
  if (settings_.quantile >= 1)
    return;
  // The same share of the remaining answers ends with each token.
  const double rate = -std::log1p(-prior_share) / settings_.prior_tokens;
  for (std::size_t i = 0; i < num_buckets; ++i)
    prior_.at(i) = -std::expm1(-rate * (begin_of(i + 1) - begin_of(i)));
  all_endings_ = prior_;
  likely_ = quantile_of(all_endings_);
}

std::size_t answer_lengths::bucket_of(std::uint32_t num_tokens) {
  const double octaves = std::log2(static_cast<double>(std::max(num_tokens, std::uint32_t{1})));
  return std::min(static_cast<std::size_t>(octaves * buckets_per_octave), num_buckets - 1);
}

/// Shortest length in this bucket.
double answer_lengths::begin_of(std::size_t bucket) {
  return bucket == 0 ? 0 : std::exp2(static_cast<double>(bucket) / buckets_per_octave);
}

void answer_lengths::add(lengths& to, std::uint32_t num_tokens, bool is_cut) {
  for (std::size_t i = 0; i < num_buckets; ++i) {
    to.ended.at(i) *= decay;
    to.cut.at(i) *= decay;
  }
  (is_cut ? to.cut : to.ended).at(bucket_of(num_tokens)) += 1;
}

answer_lengths::endings answer_lengths::endings_of(const lengths& seen, const endings& otherwise) {
  endings result{};
  double reached = 0; // answers that reached the bucket's end, and were seen until then
  for (std::size_t i = num_buckets; i-- > 0;) {
    const double ended = seen.ended.at(i);
    // Half of those that were cut here were seen in the half of it where as many others ended.
    const double at_risk = reached + ended + seen.cut.at(i) / 2;
    result.at(i) = (ended + weight_otherwise * otherwise.at(i)) / (at_risk + weight_otherwise);
    reached += ended + seen.cut.at(i);
  }
  return result;
}

std::uint32_t answer_lengths::quantile_of(const endings& ends) const {
  double left = 1; // share of the answers that are longer
  const double wanted = 1 - settings_.quantile;
  for (std::size_t i = 0; i < num_buckets; ++i) {
    const double next = left * (1 - ends.at(i));
    if (next <= wanted) {
      // Within a bucket the same share of the remaining answers ends with each token.
      const double share = next > 0 && next < left ? std::log(left / wanted) / std::log(left / next) : 1;
      return static_cast<std::uint32_t>(
          std::max(1.0, std::ceil(begin_of(i) + share * (begin_of(i + 1) - begin_of(i)) - rounding)));
    }
    left = next;
  }
  return std::numeric_limits<std::uint32_t>::max();
}

answer_lengths::tenant_entry& answer_lengths::entry_of(const std::string& tenant) {
  if (const auto found = tenants_.find(tenant); found != tenants_.end())
    return found->second;
  if (tenants_.size() >= defaults::max_known_tenants)
    tenants_.erase(std::min_element(tenants_.begin(), tenants_.end(), [](const auto& l, const auto& r) {
      return l.second.latest < r.second.latest;
    }));
  return tenants_[tenant];
}

void answer_lengths::observe(const std::string& tenant, std::uint32_t num_tokens, bool is_cut) {
  if (settings_.quantile >= 1)
    return;
  ++num_observed_;
  add(all_, num_tokens, is_cut);
  all_endings_ = endings_of(all_, prior_);
  likely_ = quantile_of(all_endings_);
  auto& entry = entry_of(tenant);
  add(entry.seen, num_tokens, is_cut);
  entry.latest = num_observed_;
}

std::uint32_t answer_lengths::likely(const std::string& tenant, std::uint32_t most) const {
  if (settings_.quantile >= 1)
    return most;
  const auto found = tenants_.find(tenant);
  if (found == tenants_.end())
    return std::min(likely_, most);
  const auto& entry = found->second;
  if (entry.likely_at != num_observed_) {
    entry.likely = quantile_of(endings_of(entry.seen, all_endings_));
    entry.likely_at = num_observed_;
  }
  return std::min(entry.likely, most);
}

std::uint32_t answer_lengths::likely() const {
  return likely_;
}

} // namespace troupe
