#include "services/top/interval_figures.hpp"

#include <algorithm>
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
    if (edge != one->labels.end())
      counts[std::strtod(edge->second.c_str(), nullptr)] += one->value; // reads "+Inf", too
  }
  return counts;
}

/// Whether the process behind a page has started again between two looks at a family of counters: it says so,
/// or any one of them is smaller than before or has gone. The sum of all may have grown all the same.
bool has_restarted(const metrics_text& before, const metrics_text& after, const std::string& family) {
  constexpr const char* start_time = "process_start_time_seconds";
  const auto first_start = before.exactly(start_time);
  const auto last_start = after.exactly(start_time);
  if (first_start && last_start && *first_start != *last_start)
    return true;
  std::map<std::map<std::string, std::string>, double> now;
  for (const series* one : after.of(family))
    now[one->labels] = one->value;
  const auto known = before.of(family);
  return std::any_of(known.begin(), known.end(), [&now](const series* one) {
    const auto found = now.find(one->labels);
    return one->value > (found == now.end() ? 0 : found->second);
  });
}

} // namespace

double increase(double before, double after) {
  return after >= before ? after - before : after;
}

std::optional<double> rate(const metrics_text& before, const metrics_text& after, std::string_view family,
                           double seconds) {
  const auto first = before.sum(family);
  const auto last = after.sum(family);
  if (!first || !last)
    return std::nullopt;
  return (has_restarted(before, after, std::string(family)) ? *last : *last - *first) / seconds;
}

std::vector<bucket> observations(const metrics_text& before, const metrics_text& after,
                                 std::string_view family) {
  const auto first = cumulative(before, family);
  const auto last = cumulative(after, family);
  const bool is_new = has_restarted(before, after, std::string(family) + "_bucket");
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
  for (const bucket& one : buckets)
    total += one.count;
  if (total <= 0)
    return std::nullopt;
  const double wanted = share * total;
  double below = 0;
  double lower = 0;
  for (const bucket& one : buckets) {
    if (one.count > 0 && below + one.count >= wanted)
      return std::isinf(one.edge) ? lower : lower + (one.edge - lower) * (wanted - below) / one.count;
    below += one.count;
    lower = one.edge;
  }
  return lower;
}

} // namespace troupe::top
