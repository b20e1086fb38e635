#include "actors/rebalancer/host_speeds.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace troupe {

void host_speeds::observe(worker_id host, const expert_work& work) {
  auto& known = hosts_[host];
  if (work.runs < known.last.runs || work.busy_ns < known.last.busy_ns) {
    known = {};
    known.last = work;
    return;
  }
  const auto runs = work.runs - known.last.runs;
  if (runs < least_runs)
    return; // too little; keep adding up
  const auto measured = static_cast<double>(work.busy_ns - known.last.busy_ns) / static_cast<double>(runs);
  known.last = work;
  known.ns_per_run =
      known.ns_per_run == 0 ? measured : (1 - smoothing) * known.ns_per_run + smoothing * measured;
}

void host_speeds::forget_others(const std::map<worker_id, expert_work>& present) {
  std::erase_if(hosts_, [&present](const auto& entry) { return !present.contains(entry.first); });
}

double host_speeds::ns_per_run() const {
  std::vector<double> times;
  for (const auto& [id, known] : hosts_)
    if (known.ns_per_run > 0)
      times.push_back(known.ns_per_run);
  if (times.empty())
    return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void host_speeds::settle() {
  const auto median = ns_per_run();
  for (auto& [id, known] : hosts_) {
    if (known.ns_per_run == 0)
      continue;
    const auto measured = std::clamp(median / known.ns_per_run, slowest, fastest);
    if (std::abs(measured / known.speed - 1) > dead_band)
      known.speed = measured;
  }
}

double host_speeds::speed(worker_id host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? 1 : found->second.speed;
}

} // namespace troupe
