// Which host should hold which experts, with the sums that policies need. It has no policy itself. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/protocol/ids.hpp"

namespace troupe {

class hosting_table {
 public:
  struct host {
    worker_id id;
    std::uint64_t max_experts = 0;
    std::uint32_t place = 0;           ///< where it is; 0: unknown, and it is apart from all others
    std::uint64_t total = 0;           ///< experts that it should hold
    std::vector<std::uint32_t> counts; ///< [layers] of those
    std::set<std::uint32_t> experts;   ///< flat indices

    bool has_room() const { return total < max_experts; }

    std::uint64_t room() const { return max_experts - std::min(max_experts, total); }
  };

  using host_list = std::vector<host*>; ///< ascending by id

  hosting_table() = default;
  explicit hosting_table(std::vector<std::uint32_t> layer_experts);
  hosting_table(hosting_table&&) = default;
  hosting_table& operator=(hosting_table&&) = default;

  // Experts are counted through all layers: the flat index.

  std::uint32_t num_layers() const { return static_cast<std::uint32_t>(layer_experts_.size()); }

  std::uint32_t num_experts() const { return first_.back(); }

  std::uint32_t num_experts(std::uint32_t layer) const { return layer_experts_[layer]; }

  bool is_known(expert_id id) const {
    return id.layer < layer_experts_.size() && id.index < layer_experts_[id.layer];
  }

  std::uint32_t flat(expert_id id) const { return first_[id.layer] + id.index; }

  std::uint32_t layer_of(std::uint32_t expert) const { return experts_[expert].layer; }

  expert_id id_of(std::uint32_t expert) const {
    return {layer_of(expert), expert - first_[layer_of(expert)]};
  }

  std::uint32_t first_of(std::uint32_t layer) const { return first_[layer]; }

  // Hosts.

  /// Adds a host, or changes what a known one may hold, without taking anything from it.
  /// @param topology  names its place; empty: unknown
  host& add_host(worker_id id, std::uint64_t max_experts, const std::string& topology = {});
  /// @return what it should have held
  std::vector<std::uint32_t> remove_host(worker_id id);
  host* find(worker_id id);
  const host* find(worker_id id) const;

  std::size_t num_hosts() const { return hosts_.size(); }

  const std::map<worker_id, host>& all_hosts() const { return hosts_; }

  /// Hosts of any of the layer's experts.
  const host_list& members(std::uint32_t layer) const { return members_[layer]; }

  bool has_room() const { return !with_room_.empty(); }

  /// The host with the fewest experts that has none of this layer and room for at least one more, or null.
  host* least_outside(std::uint32_t layer) const;

  /// The host with the fewest experts of the expert's layer, then of all, that has room for it and is apart
  /// from its other hosts; or null. One host of it may be about to leave.
  host* least_apart(std::uint32_t expert, const host* leaving = nullptr) const;

  // Experts and their hosts.

  const host_list& hosts_of(std::uint32_t expert) const { return experts_[expert].hosts; }

  bool holds(const host& at, std::uint32_t expert) const;

  /// Is none of the expert's other hosts at the same place? One of them may be about to leave.
  bool is_apart(std::uint32_t expert, const host& at, const host* leaving = nullptr) const;

  /// Has any host, since the first one came, said where it is?
  bool knows_topology() const { return !places_.empty(); }

  /// Experts and their replicas in the layer.
  std::uint32_t num_placed(std::uint32_t layer) const { return num_placed_[layer]; }

  std::uint64_t num_placed() const { return total_placed_; }

  /// Experts without a host.
  std::uint32_t num_unplaced() const { return num_unplaced_; }

  /// Experts with more than one host.
  std::uint32_t num_replicated() const { return num_replicated_; }

  void add(std::uint32_t expert, host& to);
  void remove(std::uint32_t expert, host& from);

  void move(std::uint32_t expert, host& from, host& to) {
    remove(expert, from);
    add(expert, to);
  }

  /// Pinned experts are not to be moved for balance.
  bool is_pinned(std::uint32_t expert) const { return experts_[expert].pinned; }

  void pin(std::uint32_t expert, bool pinned);

  std::uint32_t num_pinned(std::uint32_t layer) const { return num_pinned_[layer]; }

  /// Takes the experts that have got or lost a host since the last call, ascending.
  std::vector<std::uint32_t> take_touched();

 private:
  struct expert_entry {
    std::uint32_t layer = 0;
    bool pinned = false;
    bool touched = false;
    host_list hosts;
  };

  /// May a host with room be apart from the expert's other hosts?
  bool may_be_apart(std::uint32_t expert, const host* leaving) const;
  void list_by_total(host& of);
  void unlist_by_total(host& of);

  std::vector<std::uint32_t> layer_experts_; // [layers]
  std::vector<std::uint32_t> first_{0};      // [layers + 1]
  std::vector<expert_entry> experts_;        // [experts of all layers]
  std::vector<host_list> members_;           // [layers]
  std::vector<std::uint32_t> num_placed_;    // [layers]
  std::vector<std::uint32_t> num_pinned_;    // [layers]
  std::uint64_t total_placed_ = 0;
  std::uint32_t num_unplaced_ = 0;
  std::uint32_t num_replicated_ = 0;
  std::map<std::string, std::uint32_t> places_;   // by topology, from 1 on
  std::vector<std::uint64_t> hosts_with_room_{0}; // [places + 1]
  std::uint32_t num_places_with_room_ = 0;        // of those with a name
  std::map<worker_id, host> hosts_;
  std::map<std::pair<std::uint64_t, worker_id>, host*> with_room_; // by total
  std::vector<std::uint32_t> touched_;
};

} // namespace troupe
