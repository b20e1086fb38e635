#include "actors/scheduler/weight_rescue.hpp"

#include <algorithm>
#include <set>
#include <variant>

namespace troupe {

bool weight_rescue::update(const member_table& members, const placement_rollout& rollout,
                           placement_target& target) {
  auto changed = false;
  for (auto rescued = rescued_.begin(); rescued != rescued_.end();) {
    if (rollout.hosts_with(rescued->first).empty()) {
      ++rescued;
      continue;
    }
    target.set_hosts(rescued->first, rescued->second);
    rescued = rescued_.erase(rescued);
    changed = true;
  }
  std::vector<worker_id> readers;
  std::set<expert_id> orphans;
  for (const auto& [id, member] : members.all()) {
    const auto* host = std::get_if<expert_terms>(&member.hello.of_role);
    if (host == nullptr || member.leaving)
      continue;
    if (host->weights != weight_origin::peers) {
      readers.push_back(id);
      continue;
    }
    for (const auto expert : target.experts_of(id))
      if (rollout.hosts_with(expert).empty())
        orphans.insert(expert);
  }
  for (const auto expert : orphans) {
    const auto hosts = target.hosts(expert);
    const auto is_target = [&](worker_id id) {
      return std::find(hosts.begin(), hosts.end(), id) != hosts.end();
    };
    if (readers.empty() || std::any_of(readers.begin(), readers.end(), is_target))
      continue;
    const auto best = *std::min_element(readers.begin(), readers.end(), [&](worker_id l, worker_id r) {
      return target.experts_of(l).size() < target.experts_of(r).size();
    });
    // A full reader makes room by giving another expert to another host. If no host has room, the expert is
    // one of those that wait for room.
    if (!target.has_room())
      break;
    rescued_.try_emplace(expert, target.is_planned(expert) ? hosts : std::vector<worker_id>{});
    target.set_hosts(expert, {best});
    changed = true;
  }
  return changed;
}

} // namespace troupe
