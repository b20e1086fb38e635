#include "actors/planner/layer_packing.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe {

std::vector<std::uint32_t> layer_quota(const draft_placement& draft, std::uint32_t layer,
                                       std::uint64_t num_places, std::uint32_t most_hosts) {
  const auto& problem = draft.problem();
  const auto num_hosts = problem.num_hosts();
  const auto room = [&](host_index host) {
    return problem.capacity(host) - std::min(problem.capacity(host), draft.num_held(host));
  };
  std::vector<host_index> hosts;
  for (host_index host = 0; host < num_hosts; ++host)
    if (draft.has_room(host, layer))
      hosts.push_back(host);
  if (most_hosts < hosts.size()) {
    std::stable_sort(hosts.begin(), hosts.end(), [&](auto l, auto r) { return room(l) > room(r); });
    hosts.resize(most_hosts);
    std::sort(hosts.begin(), hosts.end());
  }
  double total = 0;
  for (auto host : hosts)
    total += static_cast<double>(problem.capacity(host));
  std::vector<std::uint32_t> quota(num_hosts);
  const auto limit = [&](host_index host) {
    return std::min<std::uint64_t>(
        {problem.num_experts(layer), problem.max_layer_experts(), std::max<std::uint64_t>(room(host), 1)});
  };
  std::uint64_t given = 0;
  for (auto host : hosts) {
    const auto share =
        total > 0 ? static_cast<double>(num_places) * static_cast<double>(problem.capacity(host)) / total : 0;
    quota[host] = static_cast<std::uint32_t>(std::min(static_cast<std::uint64_t>(share), limit(host)));
    given += quota[host];
  }
  // The remainder of rounding starts at another host in each layer, so that totals stay even.
  const auto start = hosts.empty() ? 0 : layer * num_places % hosts.size();
  for (bool has_given = true; given < num_places && has_given;) {
    has_given = false;
    for (std::size_t at = 0; at < hosts.size() && given < num_places; ++at)
      if (const auto host = hosts[(start + at) % hosts.size()]; quota[host] < limit(host)) {
        ++quota[host];
        ++given;
        has_given = true;
      }
  }
  return quota;
}

std::optional<host_index> layer_packing::put(std::uint32_t expert,
                                             const std::function<double(host_index)>& key) {
  for (auto [is_apart, within_quota] :
       {std::pair{true, true}, std::pair{true, false}, std::pair{false, true}, std::pair{false, false}}) {
    std::optional<host_index> best;
    double least = 0;
    for (host_index host = 0; host < quota_.size(); ++host) {
      if ((within_quota && quota_[host] == 0) || !draft_.may_add(host, layer_, expert)
          || (is_apart && !draft_.is_apart(host, layer_, expert)))
        continue;
      const auto value = key(host);
      if (!best || value < least) {
        best = host;
        least = value;
      }
    }
    if (best) {
      quota_[*best] -= quota_[*best] > 0 ? 1 : 0;
      draft_.add(*best, layer_, expert);
      return best;
    }
  }
  return std::nullopt;
}

std::vector<std::uint32_t> experts_by_work(const draft_placement& draft, std::uint32_t layer) {
  std::vector<std::uint32_t> experts;
  for (std::uint32_t expert = 0; expert < draft.problem().num_experts(layer); ++expert)
    if (!draft.is_pinned(layer, expert))
      experts.push_back(expert);
  const auto& work = draft.problem().load(layer).mean_work;
  std::stable_sort(experts.begin(), experts.end(), [&](auto l, auto r) { return work[l] > work[r]; });
  return experts;
}

std::vector<double> mean_loads(const draft_placement& draft, std::uint32_t layer) {
  const auto& problem = draft.problem();
  std::vector<double> loads(problem.num_hosts());
  for (std::uint32_t expert = 0; expert < problem.num_experts(layer); ++expert) {
    const auto& hosts = draft.hosts(layer)[expert];
    for (auto host : hosts)
      loads[host] += problem.load(layer).mean_work[expert]
                     / (static_cast<double>(hosts.size()) * problem.host(host).speed);
  }
  return loads;
}

void complete_layer(draft_placement& draft, std::uint32_t layer, std::uint32_t most_replicas) {
  const auto& problem = draft.problem();
  const auto experts = experts_by_work(draft, layer);
  most_replicas = std::min(most_replicas, problem.num_hosts());
  const auto wanted = [&](std::uint32_t expert) {
    return std::min(most_replicas, problem.min_replicas(layer, expert));
  };
  std::uint64_t num_missing = 0;
  for (auto expert : experts)
    num_missing += wanted(expert) - std::min(wanted(expert), draft.num_replicas(layer, expert));
  if (num_missing == 0)
    return;
  auto loads = mean_loads(draft, layer);
  layer_packing packing{draft, layer, layer_quota(draft, layer, num_missing)};
  for (std::uint32_t replica = 1; replica <= most_replicas; ++replica)
    for (auto expert : experts) {
      if (draft.num_replicas(layer, expert) >= std::min(replica, wanted(expert)))
        continue;
      const auto work = problem.load(layer).mean_work[expert] / wanted(expert);
      const auto after = [&](host_index host) { return loads[host] + work / problem.host(host).speed; };
      if (const auto host = packing.put(expert, after))
        loads[*host] = after(*host);
    }
}

void complete(draft_placement& draft) {
  for (auto most_replicas : {1U, draft.problem().most_min_replicas()})
    for (auto layer : draft.problem().layers_by_size())
      complete_layer(draft, layer, most_replicas);
}

} // namespace troupe
