// scheduler_state: experts that nobody has loaded, and workers that have no files to load them from.
#include <algorithm>
#include <set>
#include <vector>

#include "actors/scheduler/scheduler_state.hpp"

namespace troupe {

bool scheduler_state::rescue_orphans() {
  auto changed = false;
  for (auto rescued = rescued_.begin(); rescued != rescued_.end();) {
    if (rollout_.hosts_with(rescued->first).empty()) {
      ++rescued;
      continue;
    }
    target_.set_hosts(rescued->first, rescued->second); // what a planner has said holds again
    rescued = rescued_.erase(rescued);
    changed = true;
  }
  std::vector<worker_id> readers;
  std::set<expert_id> orphans;
  for (const auto& [id, member] : members_.all()) {
    if (member.hello.address.role != worker_role::expert || member.leaving)
      continue;
    if (member.hello.weights != weight_origin::peers) {
      readers.push_back(id);
      continue;
    }
    for (const auto expert : target_.experts_of(id))
      if (rollout_.hosts_with(expert).empty())
        orphans.insert(expert);
  }
  for (const auto expert : orphans) {
    const auto hosts = target_.hosts(expert);
    const auto is_target = [&](worker_id id) {
      return std::find(hosts.begin(), hosts.end(), id) != hosts.end();
    };
    if (readers.empty() || std::any_of(readers.begin(), readers.end(), is_target))
      continue;
    const auto best = *std::min_element(readers.begin(), readers.end(), [this](worker_id l, worker_id r) {
      return target_.experts_of(l).size() < target_.experts_of(r).size();
    });
    rescued_.try_emplace(expert, target_.is_planned(expert) ? hosts : std::vector<worker_id>{});
    target_.set_hosts(expert, {best});
    changed = true;
  }
  return changed;
}

} // namespace troupe
