// A placement that is being made, with the room that is left on each host. It knows no policy. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/planner/planning_problem.hpp"

namespace troupe {

/// Starts without any expert but the pinned ones. `problem` must outlive it.
class draft_placement {
 public:
  explicit draft_placement(const planning_problem& problem);

  const planning_problem& problem() const { return *problem_; }

  /// [experts] each list ascending
  const layer_hosts& hosts(uint32_t layer) const { return hosts_[layer]; }

  uint32_t num_replicas(uint32_t layer, uint32_t expert) const {
    return static_cast<uint32_t>(hosts_[layer][expert].size());
  }

  bool holds(host_index host, uint32_t layer, uint32_t expert) const;

  /// A pinned expert has its hosts and keeps them; one whose pinned hosts had no room is as any other.
  bool is_pinned(uint32_t layer, uint32_t expert) const { return pinned_[layer][expert]; }

  /// Whether memory and limits admit one more expert of the layer.
  bool has_room(host_index host, uint32_t layer) const;

  /// May the host get this expert? Not when it has it, or has no room, or when the expert is pinned.
  bool may_add(host_index host, uint32_t layer, uint32_t expert) const {
    return !is_pinned(layer, expert) && has_room(host, layer) && !holds(host, layer, expert);
  }

  uint64_t num_held(host_index host) const { return held_[host].num_experts; }

  uint32_t num_held(host_index host, uint32_t layer) const { return layer_counts_[layer][host]; }

  void add(host_index host, uint32_t layer, uint32_t expert);
  void remove(host_index host, uint32_t layer, uint32_t expert);

  /// Takes all experts of the layer from their hosts, except pinned ones.
  void clear_layer(uint32_t layer);

  /// Gives the layer's experts exactly these hosts; the caller knows that there is room.
  void set_layer(uint32_t layer, const layer_hosts& hosts);

 private:
  struct holding {
    uint64_t num_experts = 0;
    uint64_t bytes = 0;
  };

  const planning_problem* problem_;
  std::vector<layer_hosts> hosts_;                  // [layers]
  std::vector<holding> held_;                       // [hosts]
  std::vector<std::vector<uint32_t>> layer_counts_; // [layers][hosts]
  std::vector<std::vector<bool>> pinned_;           // [layers][experts]
};

} // namespace troupe
