#include "services/top/interval_figures.hpp"

#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

namespace troupe::top {

namespace {

/// Counts up to each edge, by the edge; of series with the same other labels they would be sums.
std::map<double, double> cumulative(const metrics_text& page, std::string_view family) {
  std::map<double, double> counts;
  for (const series* one : page.of(std::string(family) + "_bucket")) {
    const auto edge = one->labels.find("le");
    if (edge != one->labels.end()) {
      counts[std::strtod(edge->second.c_str(), nullptr)] += one->value; // reads "+Inf", too
    }
  }
  return counts;
}

} // namespace

double increase(double before, double after) {
  return after >= before ? after - before : after;
}

std::optional<double> rate(const metrics_text& before, const metrics_text& after, std::string_view family,
                           double seconds) {
  const auto first = before.sum(family);
  const auto last = after.sum(family);
  if (!first || !last) {
    return std::nullopt;
  }
  return increase(*first, *last) / seconds;
}

std::vector<bucket> observations(const metrics_text& before, const metrics_text& after,
                                 std::string_view family) {
  const auto first = cumulative(before, family);
  const auto last = cumulative(after, family);
  // The count of all tells whether the process has started again; single buckets may have grown all the same.
  const bool is_new = !first.empty() && !last.empty() && last.rbegin()->second < first.rbegin()->second;
  std::vector<bucket> result;
  double below_before = 0;
  double below_after = 0;
  for (const auto& [edge, count] : last) {
    const auto known = first.find(edge);
    const double count_before = is_new || known == first.end() ? 0 : known->second;
    result.push_back({edge, (count - below_after) - (count_before - below_before)});
    below_after = count;
    below_before = count_before;
  }
  return result;
}

std::optional<double> quantile(const std::vector<bucket>& buckets, double share) {
  double total = 0;
  for (const bucket& one : buckets) {
    total += one.count;
  }
  if (total <= 0) {
    return std::nullopt;
  }
  const double wanted = share * total;
  double below = 0;
  double lower = 0;
  for (const bucket& one : buckets) {
    if (one.count > 0 && below + one.count >= wanted) {
      return std::isinf(one.edge) ? lower : lower + (one.edge - lower) * (wanted - below) / one.count;
    }
    below += one.count;
    lower = one.edge;
  }
  return lower;
}

} // namespace troupe::top
