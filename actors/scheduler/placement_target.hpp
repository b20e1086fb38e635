// Which host should hold which experts: set by whoever plans, kept whole when hosts come and go. Pure.
//
// A change costs in proportion to what it moves, and one look at each (layer, host) that holds something.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "actors/expert_target.hpp"
#include "actors/ids.hpp"
#include "actors/scheduler/expert_grouping.hpp"
#include "actors/scheduler/hosting_table.hpp"
#include "actors/scheduler/placement_balance.hpp"
#include "actors/scheduler/placement_spread.hpp"

namespace troupe {

/// Every expert has its replicas on distinct hosts, as far as their memory goes: first one host for each
/// expert, then further replicas. No host is given more than it can hold. What is good stays; moves are as
/// few as balance_placement() needs. Equal histories have equal results.
class placement_target {
 public:
  struct settings {
    uint32_t num_replicas = 1; ///< of experts for which nobody has asked otherwise; at least one
    placement_workload workload;
  };

  explicit placement_target(settings chosen);

  /// Forgets everything, hosts too, and starts with another model's layers.
  /// @param layer_experts  [layers] experts of each layer, 0 for a dense one
  void set_layers(std::vector<uint32_t> layer_experts);

  /// Adds a host, or changes what one can hold.
  void add_host(worker_id id, uint64_t max_experts);

  /// A host has come that holds these experts. Those that a planner has not placed, and that it has room for,
  /// are its own again in the place of hosts that would have to load them.
  void take_back(worker_id id, const std::vector<expert_id>& held, const loaded_lookup& loaded);

  /// The host has died, or leaves and is to be relieved.
  void remove_host(worker_id id);

  /// A planner's word for one expert: these hosts and no others, which no balance undoes. So many replicas it
  /// has from now on, 0 meaning the default again and free to move. A host that is lost, unknown, or too full
  /// is replaced by another. Nothing else moves for it, except off hosts that are too full then. Ignored for
  /// an unknown expert.
  void set_hosts(expert_id expert, const std::vector<worker_id>& hosts);

  /// Which experts of a layer are chosen by the same tokens. Those that may move are arranged anew, so that
  /// they share hosts; how many experts each host has stays as it is.
  void set_coactivation(uint32_t layer, coactivation counts);

  /// Has anything changed since the last repair?
  bool wants_repair() const { return wants_repair_; }

  /// Makes good, in one go, what all changes since the last call have left undone.
  /// @param loaded  prefers hosts that have the weights; may be empty
  /// @return the experts that have got or lost a host since the last call, ascending. The hosts of some may
  /// be
  ///         what they were, so that an observer which forgets the experts of removed hosts learns them again
  std::vector<expert_target> repair(loaded_lookup loaded);

  /// Lets balance and the planner's words give way: wherever an expert is loaded it stays, and only experts
  /// that lack hosts are placed. For full hosts that wait for one another's room.
  /// @return as repair()
  std::vector<expert_target> settle(loaded_lookup loaded);

  std::vector<worker_id> hosts(expert_id expert) const;
  std::vector<expert_id> experts_of(worker_id host) const;

  /// Does the expert have its hosts by a planner's word?
  bool is_planned(expert_id expert) const {
    return table_.is_known(expert) && table_.is_pinned(table_.flat(expert));
  }

  size_t num_hosts() const { return table_.num_hosts(); }

  /// For how many hosts the layer is meant; memory may ask for more. As of the last repair.
  spread_range spread(uint32_t layer) const { return spreads_[layer]; }

 private:
  using host = hosting_table::host;

  uint32_t wanted(uint32_t expert) const {
    return wishes_[expert] != 0 ? wishes_[expert] : settings_.num_replicas;
  }

  void lost(uint32_t expert);
  void evict_from_full();
  void choose_spreads();
  void align_spreads();
  void balance();
  void place_missing();
  void place_loaded(uint32_t expert);
  /// True when the expert has got a host.
  bool place(uint32_t expert, bool is_new_layer);
  bool make_room_for(uint32_t expert);
  void regroup(uint32_t layer);
  std::vector<expert_target> take_changes();

  settings settings_;
  hosting_table table_;
  placement_hints hints_;
  std::vector<uint32_t> wishes_;      // [experts of all layers] replicas that a planner asked for; 0: none
  std::set<uint32_t> missing_;        // experts with fewer hosts than wanted
  std::set<worker_id> overfull_;      // may have been given more than they can hold
  std::set<uint32_t> to_regroup_;     // layers
  std::vector<spread_range> spreads_; // [layers]
  /// By a layer's experts and the hosts and the memory that it can use: layers are alike, and so are changes.
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, spread_range> known_spreads_;
  uint64_t num_joined_ = 0;    // hosts since the last repair
  uint64_t num_disturbed_ = 0; // replicas that have lost their place since then
  bool wants_repair_ = false;
};

} // namespace troupe
