// A placement under construction, with the room left on each host. It contains no policy. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/planner/planning_problem.hpp"

namespace troupe {

/// Starts with only the pinned experts. `problem` must outlive it.
class draft_placement {
 public:
  explicit draft_placement(const planning_problem& problem);

  const planning_problem& problem() const { return *problem_; }

  /// [experts] each list ascending
  const layer_hosts& hosts(std::uint32_t layer) const { return hosts_[layer]; }

  std::uint32_t num_replicas(std::uint32_t layer, std::uint32_t expert) const {
    return static_cast<std::uint32_t>(hosts_[layer][expert].size());
  }

  bool holds(host_index host, std::uint32_t layer, std::uint32_t expert) const;

  /// A pinned expert keeps its hosts. If its pinned hosts have no room, it is not pinned.
  bool is_pinned(std::uint32_t layer, std::uint32_t expert) const { return pinned_[layer][expert]; }

  /// Whether memory and limits allow one more expert of the layer.
  bool has_room(host_index host, std::uint32_t layer) const;

  /// Whether the host may get this expert: it lacks it and has room, and the expert is not pinned.
  bool may_add(host_index host, std::uint32_t layer, std::uint32_t expert) const {
    return !is_pinned(layer, expert) && has_room(host, layer) && !holds(host, layer, expert);
  }

  /// Whether the host shares no location with the expert's other hosts. One of them may be about to leave.
  bool is_apart(host_index host, std::uint32_t layer, std::uint32_t expert,
                std::optional<host_index> leaving = {}) const;

  std::uint64_t num_held(host_index host) const { return held_[host].num_experts; }

  std::uint32_t num_held(host_index host, std::uint32_t layer) const { return layer_counts_[layer][host]; }

  void add(host_index host, std::uint32_t layer, std::uint32_t expert);
  void remove(host_index host, std::uint32_t layer, std::uint32_t expert);

  /// Removes all experts of the layer from their hosts, except pinned ones.
  void clear_layer(std::uint32_t layer);

  /// Gives the layer's experts exactly these hosts; the caller has checked the room.
  void set_layer(std::uint32_t layer, const layer_hosts& hosts);

 private:
  struct holding {
    std::uint64_t num_experts = 0;
    std::uint64_t bytes = 0;
  };

  const planning_problem* problem_;
  std::vector<layer_hosts> hosts_;                       // [layers]
  std::vector<holding> held_;                            // [hosts]
  std::vector<std::vector<std::uint32_t>> layer_counts_; // [layers][hosts]
  std::vector<std::vector<bool>> pinned_;                // [layers][experts]
};

} // namespace troupe
