#include "actors/scheduler/host_orders.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace troupe {

bool host_orders::are_idle(time_point now) const {
  return std::all_of(hosts_.begin(), hosts_.end(),
                     [now](const auto& host) { return host.second.may_order(now); });
}

std::optional<host_order> host_orders::next(worker_id id, std::uint64_t term, const member_table& members,
                                            placement_rollout& rollout) {
  auto experts = rollout.next_order(id);
  if (!experts)
    return std::nullopt;
  auto sources = sources_for(id, *experts, members, rollout);
  return host_order{term, begin(id), std::move(*experts), std::move(sources)};
}

std::uint64_t host_orders::begin(worker_id id) {
  auto& host = hosts_.at(id);
  host.in_flight = true;
  return host.order = ++last_order_;
}

bool host_orders::end(worker_id id, std::uint64_t order) {
  const auto found = hosts_.find(id);
  if (found == hosts_.end() || found->second.order != order || !found->second.in_flight)
    return false;
  found->second.in_flight = false;
  return true;
}

void host_orders::succeeded(worker_id id) {
  hosts_.at(id).pause = defaults::reconnect_min;
}

void host_orders::failed(worker_id id, time_point now) {
  auto& host = hosts_.at(id);
  host.retry_at = now + host.pause;
  host.pause = std::min<std::chrono::milliseconds>(2 * host.pause, defaults::host_order_retry_max);
}

std::vector<weight_source> sources_for(worker_id id, const std::vector<expert_id>& experts,
                                       const member_table& members, const placement_rollout& rollout) {
  if (std::get<expert_terms>(members.find(id)->hello.of_role).weights == weight_origin::files)
    return {};
  std::map<worker_id, std::vector<expert_id>> by_worker;
  for (auto expert : experts) {
    const auto hosts = rollout.hosts_with(expert);
    if (std::find(hosts.begin(), hosts.end(), id) != hosts.end())
      continue;
    // The sources of neighbouring experts differ, so that no host is asked for all of them.
    for (std::size_t i = 0; i < std::min(hosts.size(), defaults::max_weight_sources); ++i)
      by_worker[hosts[(expert.index + i) % hosts.size()]].push_back(expert);
  }
  std::vector<weight_source> result;
  for (auto& [worker, held] : by_worker)
    if (const auto* member = members.find(worker))
      result.push_back({member->hello.address, std::move(held)});
  return result;
}

} // namespace troupe
