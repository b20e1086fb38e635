#include "actors/scheduler/expert_grouping.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace troupe {

namespace {

constexpr int max_exchange_passes = 8;

/// Experts by their position in the list of experts, groups by their position in the list of sizes.
class grouping {
 public:
  grouping(const coactivation& counts, const std::vector<uint32_t>& experts,
           const std::vector<uint32_t>& sizes, double max_skew)
      : counts_(counts),
        experts_(experts),
        sizes_(sizes),
        group_of_(experts.size()),
        ties_(experts.size(), std::vector<double>(sizes.size())),
        loads_(sizes.size()) {
    double total = 0;
    for (auto expert : experts_)
      total += counts_.load(expert);
    const auto share = experts_.empty() ? 0 : total / static_cast<double>(experts_.size());
    for (auto size : sizes_)
      limits_.push_back(share * size * max_skew);
  }

  /// Fills one group after the other: the most active expert that is left, then whoever is tied most to those
  /// that are in it and still fits its load.
  void fill() {
    std::vector<size_t> left(experts_.size());
    for (size_t at = 0; at < left.size(); ++at)
      left[at] = at;
    std::stable_sort(left.begin(), left.end(), [this](size_t l, size_t r) { return load(l) > load(r); });
    for (size_t group = 0; group < sizes_.size(); ++group)
      for (uint32_t member = 0; member < sizes_[group] && !left.empty(); ++member) {
        auto chosen = left.begin();
        if (member > 0) {
          auto best = left.end();
          for (auto at = left.begin(); at != left.end(); ++at)
            if (loads_[group] + load(*at) <= limits_[group]
                && (best == left.end() || ties_[*at][group] > ties_[*best][group]))
              best = at;
          chosen = best == left.end() ? left.end() - 1 : best; // the least active one when all are too many
        }
        put(*chosen, group);
        left.erase(chosen);
      }
  }

  /// Exchanges two experts of different groups while that ties groups closer, or relieves an overloaded one.
  void improve() {
    for (int pass = 0; pass < max_exchange_passes; ++pass) {
      bool has_changed = false;
      for (size_t left = 0; left < experts_.size(); ++left)
        for (size_t right = left + 1; right < experts_.size(); ++right)
          if (group_of_[left] != group_of_[right] && is_better(left, right)) {
            const auto l = group_of_[left];
            const auto r = group_of_[right];
            take(left, l);
            take(right, r);
            put(left, r);
            put(right, l);
            has_changed = true;
          }
      if (!has_changed)
        return;
    }
  }

  std::vector<std::vector<uint32_t>> result() const {
    std::vector<std::vector<uint32_t>> groups(sizes_.size());
    for (size_t at = 0; at < experts_.size(); ++at)
      groups[group_of_[at]].push_back(experts_[at]);
    for (auto& group : groups)
      std::sort(group.begin(), group.end());
    return groups;
  }

 private:
  double load(size_t at) const { return counts_.load(experts_[at]); }

  double tie(size_t a, size_t b) const { return counts_.between(experts_[a], experts_[b]); }

  void put(size_t at, size_t group) {
    group_of_[at] = group;
    loads_[group] += load(at);
    for (size_t other = 0; other < experts_.size(); ++other)
      if (other != at)
        ties_[other][group] += tie(other, at);
  }

  void take(size_t at, size_t group) {
    loads_[group] -= load(at);
    for (size_t other = 0; other < experts_.size(); ++other)
      if (other != at)
        ties_[other][group] -= tie(other, at);
  }

  double excess(size_t group, double load) const { return std::max(0.0, load - limits_[group]); }

  bool is_better(size_t left, size_t right) const {
    const auto l = group_of_[left];
    const auto r = group_of_[right];
    const auto shift = load(right) - load(left);
    const auto before = excess(l, loads_[l]) + excess(r, loads_[r]);
    const auto after = excess(l, loads_[l] + shift) + excess(r, loads_[r] - shift);
    const auto gain =
        ties_[left][r] + ties_[right][l] - ties_[left][l] - ties_[right][r] - 2 * tie(left, right);
    constexpr double noticeable = 1e-6; // sums of counts are rounded
    if (after < before - noticeable)
      return true;
    return after <= before && gain > noticeable;
  }

  const coactivation& counts_;
  const std::vector<uint32_t>& experts_;
  const std::vector<uint32_t>& sizes_;
  std::vector<size_t> group_of_;          // [experts]
  std::vector<std::vector<double>> ties_; // [experts][groups] tokens shared with the group's members
  std::vector<double> loads_;             // [groups]
  std::vector<double> limits_;            // [groups]
};

} // namespace

void coactivation::add(uint32_t a, uint32_t b, float count) {
  if (a >= num_experts_ || b >= num_experts_)
    return;
  counts_[size_t{a} * num_experts_ + b] += count;
  if (a != b)
    counts_[size_t{b} * num_experts_ + a] += count;
}

std::vector<std::vector<uint32_t>> group_experts(const coactivation& counts,
                                                 const std::vector<uint32_t>& experts,
                                                 const std::vector<uint32_t>& sizes, double max_skew) {
  grouping work{counts, experts, sizes, max_skew};
  work.fill();
  work.improve();
  return work.result();
}

} // namespace troupe
