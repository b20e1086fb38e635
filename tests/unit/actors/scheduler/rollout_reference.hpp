// A slow and simple rollout for comparison, which recomputes everything from flags for each host and expert.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/protocol/defaults.hpp"
#include "actors/protocol/ids.hpp"
#include "actors/scheduler/placement_target.hpp"

namespace troupe {

class rollout_reference {
 public:
  using routing = std::map<expert_id, std::vector<worker_id>>;

  struct host_entry {
    std::uint64_t max_experts = 0;
    std::map<expert_id, bool> hosted;
    std::map<expert_id, bool> target;
    std::map<expert_id, std::uint64_t>
        unrouted; ///< first epoch that does not route the expert here; 0: routed
  };

  void set_layers(const std::vector<std::uint32_t>& layers) {
    layers_ = layers;
    hosts.clear();
    routed.clear();
    versions.assign(layers.size(), 0);
    for (std::uint32_t layer = 0; layer < layers.size(); ++layer)
      for (std::uint32_t index = 0; index < layers[layer]; ++index)
        routed[{layer, index}] = {};
  }

  void add_host(worker_id id, std::uint64_t max_experts, const std::vector<expert_id>& hosted) {
    auto& host = hosts[id];
    host.max_experts = max_experts;
    for (const auto& [expert, at] : routed) {
      host.hosted[expert] = false;
      host.target[expert]; // stays
      host.unrouted[expert] = std::find(at.begin(), at.end(), id) == at.end() ? epoch_ : 0;
    }
    reported(id, hosted);
  }

  void remove_host(worker_id id) { hosts.erase(id); }

  void reported(worker_id id, const std::vector<expert_id>& hosted) {
    if (!hosts.contains(id))
      return;
    auto& host = hosts[id];
    for (auto& [expert, is_hosted] : host.hosted)
      is_hosted = std::find(hosted.begin(), hosted.end(), expert) != hosted.end();
  }

  void retarget(const std::vector<expert_target>& targets) {
    for (const auto& [expert, wanted] : targets)
      for (auto& [id, host] : hosts)
        host.target[expert] = std::find(wanted.begin(), wanted.end(), id) != wanted.end();
  }

  void add_router(worker_id id) { confirmations[id] = 0; }

  void remove_router(worker_id id) { confirmations.erase(id); }

  bool confirmed(worker_id id, std::uint64_t epoch) {
    auto found = confirmations.find(id);
    if (found == confirmations.end() || found->second >= epoch)
      return false;
    found->second = epoch;
    return true;
  }

  void restart_epochs() {
    epoch_ = 0;
    for (auto& [id, epoch] : confirmations)
      epoch = 0;
    for (auto& [id, host] : hosts)
      for (auto& [expert, epoch] : host.unrouted)
        epoch = 0;
  }

  std::vector<worker_id> routing_of(expert_id expert) const {
    std::vector<worker_id> all;
    std::vector<worker_id> targets;
    bool is_settled = true;
    for (const auto& [id, host] : hosts) {
      if (host.hosted.at(expert))
        all.push_back(id);
      if (host.target.at(expert))
        targets.push_back(id);
      is_settled = is_settled && (!host.target.at(expert) || host.hosted.at(expert));
    }
    return is_settled && !targets.empty() ? targets : all;
  }

  bool wants_route() const {
    return (epoch_ == 0 && !hosts.empty())
           || std::any_of(routed.begin(), routed.end(),
                          [this](const auto& x) { return routing_of(x.first) != x.second; });
  }

  /// @returns layers that differ from the last routing
  std::vector<std::uint32_t> route(std::uint64_t term, std::uint64_t epoch) {
    epoch_ = epoch;
    std::vector<bool> changed(layers_.size());
    for (std::size_t layer = 0; layer < layers_.size(); ++layer)
      changed[layer] = versions[layer] == 0;
    for (auto& [expert, old] : routed) {
      auto next = routing_of(expert);
      changed[expert.layer] = changed[expert.layer] || next != old;
      for (auto& [id, host] : hosts)
        if (std::find(next.begin(), next.end(), id) != next.end())
          host.unrouted[expert] = 0;
        else if (host.unrouted[expert] == 0)
          host.unrouted[expert] = epoch;
      old = std::move(next);
    }
    std::vector<std::uint32_t> result;
    for (std::uint32_t layer = 0; layer < layers_.size(); ++layer)
      if (changed[layer]) {
        versions[layer] = (term << 32U) + epoch;
        result.push_back(layer);
      }
    return result;
  }

  bool is_complete() const {
    return !layers_.empty()
           && std::none_of(routed.begin(), routed.end(), [](const auto& x) { return x.second.empty(); });
  }

  bool is_releasable(worker_id id, expert_id expert) const {
    const auto& host = hosts.at(id);
    const auto epoch = host.unrouted.at(expert);
    const auto next = routing_of(expert);
    return host.hosted.at(expert) && epoch != 0 && !host.target.at(expert)
           && std::find(next.begin(), next.end(), id) == next.end()
           && std::all_of(confirmations.begin(), confirmations.end(),
                          [epoch](const auto& x) { return x.second >= epoch; });
  }

  std::uint64_t num_keeping(worker_id id) const {
    std::uint64_t result = 0;
    for (const auto& [expert, is_hosted] : hosts.at(id).hosted)
      result += is_hosted && !is_releasable(id, expert) ? 1 : 0;
    return result;
  }

  std::optional<std::vector<expert_id>> next_order(worker_id id) {
    if (!hosts.contains(id))
      return std::nullopt;
    auto& host = hosts[id];
    std::vector<std::pair<std::size_t, expert_id>> missing;
    std::vector<expert_id> wanted;
    std::vector<expert_id> released;
    for (const auto& [expert, is_hosted] : host.hosted)
      if (is_releasable(id, expert))
        released.push_back(expert);
      else if (is_hosted)
        wanted.push_back(expert);
      else if (host.target[expert])
        missing.emplace_back(routed[expert].size(), expert);
    std::sort(missing.begin(), missing.end());
    const auto room = host.max_experts - std::min<std::uint64_t>(host.max_experts, wanted.size());
    missing.resize(std::min<std::uint64_t>({missing.size(), room, defaults::max_experts_per_order}));
    if (released.empty() && missing.empty())
      return std::nullopt;
    for (auto expert : released)
      host.hosted[expert] = false;
    for (const auto& [num_hosts, expert] : missing)
      wanted.push_back(expert);
    std::sort(wanted.begin(), wanted.end());
    return wanted;
  }

  bool is_stuck() const {
    return std::any_of(hosts.begin(), hosts.end(), [this](const auto& entry) {
      const auto& [id, host] = entry;
      for (const auto& [expert, is_target] : host.target)
        if (is_target && !host.hosted.at(expert))
          return num_keeping(id) >= host.max_experts;
      return false;
    });
  }

  bool awaits_confirmation() const {
    return std::any_of(hosts.begin(), hosts.end(), [this](const auto& entry) {
      const auto& [id, host] = entry;
      for (const auto& [expert, is_hosted] : host.hosted)
        if (is_hosted && host.unrouted.at(expert) != 0 && !is_releasable(id, expert))
          return true;
      return false;
    });
  }

  bool is_free(worker_id id) const { return !hosts.contains(id) || num_keeping(id) == 0; }

  std::vector<expert_id> hosted(worker_id id) const {
    std::vector<expert_id> result;
    if (hosts.contains(id))
      for (const auto& [expert, is_hosted] : hosts.at(id).hosted)
        if (is_hosted)
          result.push_back(expert);
    return result;
  }

  std::map<worker_id, host_entry> hosts;
  std::map<worker_id, std::uint64_t> confirmations;
  routing routed;
  std::vector<std::uint64_t> versions; // [layers]

 private:
  std::vector<std::uint32_t> layers_;
  std::uint64_t epoch_ = 0;
};

} // namespace troupe
