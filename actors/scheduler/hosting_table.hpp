// Which host should hold which experts, with the sums that choices are made by. It knows no policy. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "actors/ids.hpp"

namespace troupe {

class hosting_table {
 public:
  struct host {
    worker_id id;
    uint64_t max_experts = 0;
    uint64_t total = 0;           ///< experts that it should hold
    std::vector<uint32_t> counts; ///< [layers] of those
    std::set<uint32_t> experts;   ///< flat indices

    bool has_room() const { return total < max_experts; }

    uint64_t room() const { return max_experts - std::min(max_experts, total); }
  };

  using host_list = std::vector<host*>; ///< ascending by id

  hosting_table() = default;
  explicit hosting_table(std::vector<uint32_t> layer_experts);
  hosting_table(hosting_table&&) = default;
  hosting_table& operator=(hosting_table&&) = default;

  // Experts are counted through all layers: the flat index.

  uint32_t num_layers() const { return static_cast<uint32_t>(layer_experts_.size()); }

  uint32_t num_experts() const { return first_.back(); }

  uint32_t num_experts(uint32_t layer) const { return layer_experts_[layer]; }

  bool is_known(expert_id id) const {
    return id.layer < layer_experts_.size() && id.index < layer_experts_[id.layer];
  }

  uint32_t flat(expert_id id) const { return first_[id.layer] + id.index; }

  uint32_t layer_of(uint32_t expert) const { return experts_[expert].layer; }

  expert_id id_of(uint32_t expert) const { return {layer_of(expert), expert - first_[layer_of(expert)]}; }

  uint32_t first_of(uint32_t layer) const { return first_[layer]; }

  // Hosts.

  /// Adds a host, or changes what an old one may hold, without taking anything from it.
  host& add_host(worker_id id, uint64_t max_experts);
  /// @return what it should have held
  std::vector<uint32_t> remove_host(worker_id id);
  host* find(worker_id id);
  const host* find(worker_id id) const;

  size_t num_hosts() const { return hosts_.size(); }

  const std::map<worker_id, host>& all_hosts() const { return hosts_; }

  /// Hosts of any of the layer's experts.
  const host_list& members(uint32_t layer) const { return members_[layer]; }

  /// The host with the fewest experts that has none of this layer and room for at least one more, or null.
  host* least_outside(uint32_t layer) const;

  // Who holds what.

  const host_list& hosts_of(uint32_t expert) const { return experts_[expert].hosts; }

  bool holds(const host& at, uint32_t expert) const;

  /// Experts and their replicas in the layer.
  uint32_t num_placed(uint32_t layer) const { return num_placed_[layer]; }

  uint64_t num_placed() const { return total_placed_; }

  /// Experts with more than one host.
  uint32_t num_replicated() const { return num_replicated_; }

  void add(uint32_t expert, host& to);
  void remove(uint32_t expert, host& from);

  void move(uint32_t expert, host& from, host& to) {
    remove(expert, from);
    add(expert, to);
  }

  /// Pinned experts are not to be moved for balance.
  bool is_pinned(uint32_t expert) const { return experts_[expert].pinned; }

  void pin(uint32_t expert, bool pinned);

  uint32_t num_pinned(uint32_t layer) const { return num_pinned_[layer]; }

  /// Takes the experts that have got or lost a host since the last call, ascending.
  std::vector<uint32_t> take_touched();

 private:
  struct expert_entry {
    uint32_t layer = 0;
    bool pinned = false;
    bool touched = false;
    host_list hosts;
  };

  void list_by_total(host& of);
  void unlist_by_total(host& of);

  std::vector<uint32_t> layer_experts_; // [layers]
  std::vector<uint32_t> first_{0};      // [layers + 1]
  std::vector<expert_entry> experts_;   // [experts of all layers]
  std::vector<host_list> members_;      // [layers]
  std::vector<uint32_t> num_placed_;    // [layers]
  std::vector<uint32_t> num_pinned_;    // [layers]
  uint64_t total_placed_ = 0;
  uint32_t num_replicated_ = 0;
  std::map<worker_id, host> hosts_;
  std::map<std::pair<uint64_t, worker_id>, host*> with_room_; // by total
  std::vector<uint32_t> touched_;
};

} // namespace troupe
