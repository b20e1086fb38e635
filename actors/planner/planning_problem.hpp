// A planner's input prepared: hosts by index, activations as the work of one step. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "actors/planner/planner_input.hpp"
#include "actors/protocol/ids.hpp"

namespace troupe {

/// Index of a host: 0, 1, ... by ascending id, without drained hosts.
using host_index = std::uint32_t;

/// [experts] hosts of one layer's experts, each list ascending.
using layer_hosts = std::vector<std::vector<host_index>>;

/// One layer's activations in all windows.
struct layer_load {
  std::vector<double> rows;      // [experts, windows] of one step
  std::vector<double> work_ns;   // [experts, windows] of one step, on a host of speed 1
  std::vector<double> mean_work; // [experts] weighted over windows
};

/// A step in which an expert gets r rows on average costs its host
///  expert_ns x (1 - e^-r) + row_ns x r,
/// since r independent rows leave it idle with probability e^-r. Windows of another shape than `present` are
/// ignored. Without windows, experts are assumed equal.
class planning_problem {
 public:
  explicit planning_problem(const planner_input& input);

  std::uint32_t num_hosts() const { return static_cast<std::uint32_t>(hosts_.size()); }

  const planner_worker& host(host_index host) const { return hosts_[host]; }

  /// Whether the hosts share a location, so that both should not hold one expert.
  bool is_beside(host_index one, host_index other) const {
    return one != other && !hosts_[one].topology.empty() && hosts_[one].topology == hosts_[other].topology;
  }

  /// Experts that the host can hold, by number and bytes; at most all experts.
  std::uint64_t capacity(host_index host) const { return capacities_[host]; }

  std::uint32_t num_layers() const { return static_cast<std::uint32_t>(present_.size()); }

  std::uint32_t num_experts(std::uint32_t layer) const {
    return static_cast<std::uint32_t>(present_[layer].size());
  }

  std::uint64_t expert_bytes(std::uint32_t layer) const { return expert_bytes_[layer]; }

  /// Layers by descending size of an expert: large ones find room first.
  const std::vector<std::uint32_t>& layers_by_size() const { return layers_by_size_; }

  std::size_t num_windows() const { return weights_.size(); }

  /// [windows], sum 1
  const std::vector<double>& weights() const { return weights_; }

  const layer_load& load(std::uint32_t layer) const { return loads_[layer]; }

  /// The present hosts of experts, without those that are gone or drained. Of several at one location all but
  /// one are left out while there are other locations.
  const layer_hosts& present(std::uint32_t layer) const { return present_[layer]; }

  /// Hosts of a pinned expert; empty: not pinned.
  const std::vector<host_index>& pin(std::uint32_t layer, std::uint32_t expert) const {
    return pins_[layer][expert];
  }

  /// Least replicas of an expert, as far as there is room.
  std::uint32_t min_replicas(std::uint32_t layer, std::uint32_t expert) const {
    if (const auto found = more_replicas_.find({layer, expert}); found != more_replicas_.end())
      return found->second;
    return min_replicas_;
  }

  /// The largest min_replicas() of all experts.
  std::uint32_t most_min_replicas() const { return most_min_replicas_; }

  std::uint32_t max_replicas() const { return max_replicas_; }

  std::uint32_t max_layer_experts() const { return max_layer_experts_; }

  double message_ns() const { return costs_.message_ns; }

  /// Cost of loading one expert, spread over the steps of the horizon.
  double load_cost_ns(std::uint32_t layer) const;

 private:
  std::vector<host_index> indices_of(const std::vector<worker_id>& ids) const;
  std::vector<host_index> apart(const std::vector<host_index>& hosts) const;
  bool has_shape(const expert_table<float>& rows) const;
  void add_window(const planner_window& window);
  void add_counts(const expert_table<double>& counts);
  void finish_loads();

  planner_costs costs_;
  std::vector<planner_worker> hosts_;
  std::vector<std::uint64_t> capacities_;   // [hosts]
  std::vector<std::uint64_t> expert_bytes_; // [layers]
  std::vector<std::uint32_t> layers_by_size_;
  std::vector<double> weights_;      // [windows]
  std::vector<layer_load> loads_;    // [layers]
  std::vector<layer_hosts> present_; // [layers]
  std::vector<layer_hosts> pins_;    // [layers]
  std::uint32_t min_replicas_ = 1;
  std::uint32_t most_min_replicas_ = 1;
  std::map<expert_id, std::uint32_t> more_replicas_; // above min_replicas_
  std::uint32_t max_replicas_ = 1;
  std::uint32_t max_layer_experts_ = 0;
  std::vector<std::vector<std::vector<double>>> windows_; // [windows][layers][experts] rows of a step
};

} // namespace troupe
