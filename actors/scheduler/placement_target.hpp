// Which host should hold which experts: set by planners, repaired when hosts come and go. Pure.
//
// The cost of a change is proportional to what it moves, plus one look at each (layer, host) pair with
// experts.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "actors/protocol/expert_target.hpp"
#include "actors/protocol/ids.hpp"
#include "actors/scheduler/hosting_table.hpp"
#include "actors/scheduler/placement_balance.hpp"
#include "actors/scheduler/placement_spread.hpp"

namespace troupe {

/// Every expert has its replicas on distinct hosts, as far as their memory goes, and at distinct places where
/// hosts say where they are and another place has room: first one host for each expert, then further
/// replicas. No host is given more than it can hold: if all hosts together have too little room, what is
/// loaded stays, and the remaining room goes to the experts that are chosen most often. Nothing moves that
/// need not: moves are as few as balance_placement() needs. Equal histories have equal results.
class placement_target {
 public:
  struct settings {
    std::uint32_t num_replicas = 1; ///< of experts that no planner has placed; at least one
    placement_workload workload;
  };

  explicit placement_target(settings chosen);

  /// Forgets everything, hosts too, and starts with another model's layers.
  /// @param layer_experts  [layers] experts of each layer, 0 for a dense one
  void set_layers(std::vector<std::uint32_t> layer_experts);

  /// Adds a host, or changes what one can hold.
  /// @param topology  where it is, such as the name of a node; empty: unknown
  void add_host(worker_id id, std::uint64_t max_experts, const std::string& topology = {});

  /// A host has come that holds these experts. It gets those back that no planner has placed and that it has
  /// room for, instead of hosts that would have to load them.
  void take_back(worker_id id, const std::vector<expert_id>& held, const loaded_lookup& loaded);

  /// The host has died, or leaves and is to be relieved.
  void remove_host(worker_id id);

  /// A planner places one expert on these hosts and no others, which no balance undoes. The expert has this
  /// number of replicas from now on; with no hosts it has the default again and may move. A host that is
  /// lost, unknown, or too full is replaced by another. Nothing else moves, except off hosts that are too
  /// full then. Ignored for an unknown expert.
  void set_hosts(expert_id expert, const std::vector<worker_id>& hosts);

  /// How often recent tokens chose each expert: [layers][experts]. Ignored for another model's shape.
  void set_activity(const std::vector<std::vector<std::uint64_t>>& rows);

  /// Has anything changed since the last repair?
  bool wants_repair() const { return wants_repair_; }

  /// Repairs the target after all changes since the last call.
  /// @param loaded  prefers hosts that have the weights; may be empty
  /// @return the experts that have got or lost a host since the last call, ascending. The hosts of some may
  /// be
  ///         what they were, so that an observer which forgets the experts of removed hosts learns them again
  std::vector<expert_target> repair(loaded_lookup loaded);

  /// Ignores balance and planners: wherever an expert is loaded it stays, and only experts that lack hosts
  /// are placed. For full hosts that wait for one another's room.
  /// @return as repair()
  std::vector<expert_target> settle(loaded_lookup loaded);

  std::vector<worker_id> hosts(expert_id expert) const;
  std::vector<expert_id> experts_of(worker_id host) const;

  /// Has a planner placed the expert?
  bool is_planned(expert_id expert) const {
    return table_.is_known(expert) && table_.is_pinned(table_.flat(expert));
  }

  std::size_t num_hosts() const { return table_.num_hosts(); }

  /// Experts for which no host has room, as of the last repair.
  std::uint32_t num_unplaced() const { return table_.num_unplaced(); }

  std::uint32_t num_experts() const { return table_.num_experts(); }

  /// Has any host room for one more expert?
  bool has_room() const { return table_.has_room(); }

  /// The number of hosts that the layer is meant for; memory may need more. As of the last repair.
  spread_range spread(std::uint32_t layer) const { return spreads_[layer]; }

 private:
  using host = hosting_table::host;

  std::uint32_t wanted(std::uint32_t expert) const {
    return wishes_[expert] != 0 ? wishes_[expert] : settings_.num_replicas;
  }

  void lost(std::uint32_t expert);
  void evict_from_full();
  void choose_spreads();
  void align_spreads();
  void balance();
  void place_missing();
  /// In the order in which they are placed.
  std::vector<std::uint32_t> missing_by_need() const;
  void place_loaded(std::uint32_t expert);
  /// @returns whether the expert has got a host
  bool place(std::uint32_t expert, bool is_new_layer);
  bool make_room_for(std::uint32_t expert);
  /// Moves replicas that share a place to other places.
  void separate();
  std::vector<expert_target> take_changes();

  settings settings_;
  hosting_table table_;
  loaded_lookup loaded_;                // during repair() and settle()
  std::vector<std::uint32_t> wishes_;   // [experts of all layers] replicas that a planner wants; 0: none
  std::vector<std::uint64_t> activity_; // likewise, recent rows; empty: unknown
  std::set<std::uint32_t> missing_;     // experts with fewer hosts than wanted
  std::set<worker_id> overfull_;        // may have more than they can hold
  std::vector<spread_range> spreads_;   // [layers]
  /// By a layer's experts and the hosts and memory that it can use: most layers and changes are alike.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>, spread_range> known_spreads_;
  std::uint64_t num_joined_ = 0;    // hosts since the last repair
  std::uint64_t num_disturbed_ = 0; // replicas that have lost their host since then
  bool wants_repair_ = false;
};

} // namespace troupe
