#include "actors/rebalancer/wanted_workers.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {

namespace {

/// More than any cluster has; a chart's upper bound limits it.
constexpr double most_workers = 65'536;

std::uint32_t workers_for(double load, double utilization) {
  return static_cast<std::uint32_t>(std::clamp(std::ceil(load / utilization), 0.0, most_workers));
}

/// Workers that hold all copies. Workers that can hold none are left out.
std::uint32_t workers_for_memory(const wanted_workers::look& seen) {
  if (seen.worker_room == 0)
    return 0;
  const auto full = seen.num_copies / seen.worker_room + (seen.num_copies % seen.worker_room == 0 ? 0 : 1);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(full, static_cast<std::uint64_t>(most_workers)));
}

} // namespace

double wanted_workers::mean_load(const look& seen, time_point now) {
  if (seen.load)
    loads_.emplace_back(now, *seen.load);
  while (!loads_.empty() && now - loads_.front().first > limits_.load_window)
    loads_.pop_front();
  double sum = 0;
  for (const auto& [at, load] : loads_)
    sum += load;
  return loads_.empty() ? 0 : sum / static_cast<double>(loads_.size());
}

std::optional<std::uint32_t> wanted_workers::observe(const look& seen, time_point now) {
  const auto load = mean_load(seen, now);
  const auto for_memory = workers_for_memory(seen);
  const auto least = std::max({1U, seen.num_replicas, for_memory});
  estimate found{now, std::max(least, workers_for(load, limits_.utilization)),
                 std::max(least, workers_for(load, limits_.utilization * limits_.margin))};
  if (!seen.is_settled && wanted_) // unserved experts must not reduce the number
    found.to_keep = std::max(found.to_keep, *wanted_);
  // After a gap in the looks, earlier estimates no longer count.
  const auto is_late = !estimates_.empty() && now - estimates_.back().at > limits_.load_window;
  estimates_.push_back(found);
  while (now - estimates_.front().at > limits_.hold)
    estimates_.pop_front();
  // While weights load, the load is unknown. If there are too few workers to load them, waiting does not
  // help.
  const auto is_loading = !seen.is_settled && seen.num_workers >= for_memory;
  if (!since_ || is_late || (!wanted_ && is_loading))
    since_ = now;
  if (wanted_ && found.to_grow > *wanted_) {
    if (now - *since_ >= limits_.load_window)
      wanted_ = found.to_grow;
  } else if (now - *since_ >= limits_.hold) {
    std::uint32_t enough = 0;
    for (const auto& past : estimates_)
      enough = std::max(enough, wanted_ ? past.to_keep : past.to_grow);
    wanted_ = wanted_ ? std::min(*wanted_, enough) : enough;
  }
  return wanted_;
}

} // namespace troupe
