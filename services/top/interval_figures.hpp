// What counters and histograms say of the time between two looks at them.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "services/top/metrics_text.hpp"

namespace troupe::top {

/// How much a counter has grown. One that is smaller than before belongs to a process that has started again:
/// all that it counts has come since.
double increase(double before, double after);

/// A second's increase of all series of a family together. Where any of them is smaller than before, or the
/// page says that its process has started again, all that they count has come since.
/// @param seconds  between the two; above 0
/// @returns nothing where one of the pages lacks the family
std::optional<double> rate(const metrics_text& before, const metrics_text& after, std::string_view family,
                           double seconds);

/// The observations of a histogram, by the upper edge of their bucket.
struct bucket {
  double edge = 0; ///< infinity for the last one
  double count = 0;
  bool operator==(const bucket&) const = default;
};

/// Those that have come between two pages, over all series of a family; empty where there is no such family.
/// Where any bucket is smaller than before, or the page says that its process has started again, all of them
/// have come since.
/// @param family  without `_bucket`
std::vector<bucket> observations(const metrics_text& before, const metrics_text& after,
                                 std::string_view family);

/// The value below which this share of the observations is, as Prometheus' histogram_quantile has it:
/// linear within a bucket, and the last finite edge where it is in the last bucket.
/// @param share  0 to 1
/// @returns nothing where there are no observations
std::optional<double> quantile(const std::vector<bucket>& buckets, double share);

} // namespace troupe::top
