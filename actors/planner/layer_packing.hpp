// Common parts of the simple strategies: how many experts of a layer each host gets, and which host is next.
// Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "actors/planner/draft_placement.hpp"

namespace troupe {

/// Places of one layer for each host, [hosts]: in proportion to the hosts' capacities, and equal (within one)
/// for equal hosts.
/// @param num_places  to distribute; fewer result only if hosts or limits allow no more
/// @param most_hosts  most hosts that get any: those with the most room left
std::vector<std::uint32_t> layer_quota(const draft_placement& draft, std::uint32_t layer,
                                       std::uint64_t num_places,
                                       std::uint32_t most_hosts = std::numeric_limits<std::uint32_t>::max());

/// Puts experts of one layer on hosts, in the order in which a strategy asks.
class layer_packing {
 public:
  layer_packing(draft_placement& draft, std::uint32_t layer, std::vector<std::uint32_t> quota)
      : draft_(draft), layer_(layer), quota_(std::move(quota)) {}

  /// Puts the expert on the host with the least key(host), the first of equals. Candidates are the hosts with
  /// places left in their quota; if there are none, all hosts with room. A host at the location of another
  /// host of the expert is used only if no other has room.
  /// @returns the host; empty if all hosts are full or hold the expert
  std::optional<host_index> put(std::uint32_t expert, const std::function<double(host_index)>& key);

 private:
  draft_placement& draft_;
  std::uint32_t layer_;
  std::vector<std::uint32_t> quota_; // [hosts] places left
};

/// The layer's experts that are not pinned, by descending mean work; equal ones by index.
std::vector<std::uint32_t> experts_by_work(const draft_placement& draft, std::uint32_t layer);

/// [hosts] mean work of the layer on each host, divided by its speed; replicas share it evenly.
std::vector<double> mean_loads(const draft_placement& draft, std::uint32_t layer);

/// Adds hosts, as far as there is room, to experts of the layer with fewer than
/// planning_problem::min_replicas(), up to `most_replicas`, on the least loaded hosts first. All first hosts
/// come before any second one.
void complete_layer(draft_placement& draft, std::uint32_t layer, std::uint32_t most_replicas);

/// Gives every expert one host, then planning_problem::min_replicas(), as far as there is room; the largest
/// experts first.
void complete(draft_placement& draft);

} // namespace troupe
