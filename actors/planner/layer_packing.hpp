// What the simple strategies share: how many experts of a layer each host gets, and which host is next. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "actors/planner/draft_placement.hpp"

namespace troupe {

/// Places of one layer for each host, [hosts]: in proportion to what the hosts can hold, and each the same
/// where they are alike (within one).
/// @param num_places  to share out; fewer come out only where hosts or limits admit no more
/// @param most_hosts  only so many hosts get any, those with the most room left
std::vector<uint32_t> layer_quota(const draft_placement& draft, uint32_t layer, uint64_t num_places,
                                  uint32_t most_hosts = std::numeric_limits<uint32_t>::max());

/// Adds up on which hosts one layer's experts come to lie, in the order in which a strategy asks.
class layer_packing {
 public:
  layer_packing(draft_placement& draft, uint32_t layer, std::vector<uint32_t> quota)
      : draft_(draft), layer_(layer), quota_(std::move(quota)) {}

  /// Puts the expert on the host with the least key(host), the first of equals, among those with places left
  /// in their quota, or when there are none, among all with room.
  /// @return the host; none when no host has room or all that have hold it already
  std::optional<host_index> put(uint32_t expert, const std::function<double(host_index)>& key);

 private:
  draft_placement& draft_;
  uint32_t layer_;
  std::vector<uint32_t> quota_; // [hosts] left
};

/// The layer's experts that are not pinned, by descending mean work; equals by index.
std::vector<uint32_t> experts_by_work(const draft_placement& draft, uint32_t layer);

/// Mean work of the layer that each host has, on its speed, [hosts]; replicas share it evenly.
std::vector<double> mean_loads(const draft_placement& draft, uint32_t layer);

/// Gives experts of the layer that have fewer hosts than planning_problem::min_replicas() further ones, up to
/// `most_replicas`, the least loaded first, as far as there is room. All first ones come before any second.
void complete_layer(draft_placement& draft, uint32_t layer, uint32_t most_replicas);

/// Gives every expert a host, and then planning_problem::min_replicas(), as far as there is room; the largest
/// first.
void complete(draft_placement& draft);

} // namespace troupe
