// From the placement that should be to the one that is, without a stall: which experts each host is told to
// hold, where attention workers are told to send rows, and when an old host may let go. Pure.
//
//   target ──► order (load) ──► report ──► route to the new host, publish ──► every attention worker confirms
//          ──► order (release)
//
// What changes is remembered, so that nothing is searched: a call costs in proportion to the experts that it
// changes and to those of the hosts that hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/ids.hpp"
#include "actors/scheduler/placement_target.hpp"

namespace troupe {

class placement_rollout {
 public:
  /// A routing to publish, and the layers in which it differs from the one before.
  struct publication {
    placement experts;
    std::vector<uint32_t> changed_layers; ///< ascending
  };

  /// Forgets everything but the routers, and starts with another model's layers.
  void set_layers(std::vector<uint32_t> layer_experts);

  // Hosts.

  /// Adds a host with what it has loaded, or takes an old one's word anew. What it should hold stays.
  void add_host(worker_id id, uint64_t max_experts, const std::vector<expert_id>& hosted);
  /// It is gone, and with it what it should have held until the next retarget().
  void remove_host(worker_id id);
  /// What the host has loaded by its own word. Unknown experts are ignored.
  void reported(worker_id id, const std::vector<expert_id>& hosted);
  /// Who should hold these experts from now on; the others' targets stay. Unknown hosts are ignored. A host
  /// that leaves is no target of any expert: it keeps what it has until others have it.
  void retarget(const std::vector<expert_target>& targets);

  // Routers: attention workers, which confirm the epochs that they route by.

  void add_router(worker_id id);
  void remove_router(worker_id id);
  /// True when that is news.
  bool confirmed(worker_id id, uint64_t epoch);
  /// A new term counts its epochs from the start.
  void restart_epochs();

  // What to publish.

  /// Is the routing that `route` would give another than the last one, or the first of a term that hosts wait
  /// for?
  bool wants_route() const { return !unpublished_.empty() || !unrouted_yet_.empty(); }

  /// Takes the routing to be published as (term, epoch): every expert's target hosts once all of them have
  /// it, until then every host that has it. Layers that change get the version term × 2^32 + epoch, which
  /// grows across terms.
  publication route(uint64_t term, uint64_t epoch);

  /// Has every expert a host in the last routing?
  bool is_complete() const { return !layer_experts_.empty() && num_unhosted_ == 0; }

  // What to order.

  /// Hosts that next_order() has an order for, ascending.
  const std::set<worker_id>& hosts_with_orders() const { return with_orders_; }

  /// The next order for a host, if it should change what it holds: first what nobody hosts, never more than
  /// fits, at most defaults::max_experts_per_order new ones. What the order leaves out is not routed to
  /// again.
  /// @return all that it is to hold, ascending
  std::optional<std::vector<expert_id>> next_order(worker_id id);

  /// Does a host lack room for what it should hold, until others take over from it?
  bool is_stuck() const { return num_stuck_ > 0; }

  /// Does a release wait for an attention worker to confirm?
  bool awaits_confirmation() const { return num_awaiting_ > 0; }

  /// Does nothing depend on this host any more?
  bool is_free(worker_id id) const;

  // What is.

  /// Is the expert loaded where it should be and nowhere else, and is that published and known to everybody?
  bool is_carried_out(expert_id expert) const;

  std::vector<expert_id> hosted(worker_id id) const;

  /// The hosts that have the expert loaded, ascending; valid until the next change. A loaded_lookup.
  std::span<const worker_id> hosts_with(expert_id expert) const;

  size_t num_hosts() const { return hosts_.size(); }

 private:
  /// An expert on a host.
  struct holding {
    bool hosted = false;
    bool target = false;
    bool routed = false;   ///< by the last routing
    uint64_t unrouted = 0; ///< the epoch that stopped routing here; 0: see host_entry::first_epoch
  };

  struct host_entry {
    uint64_t max_experts = 0;
    /// The last epoch when the host came, or the first one of a later term: it does not route here what no
    /// later one did. 0: still to come.
    uint64_t first_epoch = 0;
    std::map<uint32_t, holding> experts; ///< by flat index; all that it hosts, should host, or is routed for
    // Derived by examine().
    uint64_t num_keeping = 0; ///< hosts and may not let go
    bool has_order = false;
    bool is_stuck = false;
    bool is_awaiting = false;
  };

  struct expert_entry {
    uint32_t layer = 0;
    // Ascending.
    std::vector<worker_id> hosted;
    std::vector<worker_id> target;
    std::vector<worker_id> routed;
  };

  expert_id id_of(uint32_t expert) const {
    return {experts_[expert].layer, expert - first_[experts_[expert].layer]};
  }

  bool is_known(expert_id id) const {
    return id.layer < layer_experts_.size() && id.index < layer_experts_[id.layer];
  }

  uint32_t flat(expert_id id) const { return first_[id.layer] + id.index; }

  const std::vector<worker_id>& routing_of(const expert_entry& expert) const;
  /// First epoch that does not route the expert to the host; 0: routed, or not known yet.
  static uint64_t unrouted_since(const host_entry& host, const holding& expert);
  bool is_releasable(worker_id id, const host_entry& host, uint32_t expert, const holding& held) const;
  void set_hosted(worker_id id, host_entry& host, const std::vector<expert_id>& hosted);
  void stop_hosting(worker_id id, uint32_t expert);
  /// The expert has changed hosts or targets.
  void touch(uint32_t expert);
  /// Derives again what is known of the hosts that have changed.
  void examine_changed();
  void examine(worker_id id, host_entry& host);
  void confirmations_changed();

  std::vector<uint32_t> layer_experts_; // [layers]
  std::vector<uint32_t> first_;         // [layers] flat index of each layer's expert 0
  std::vector<expert_entry> experts_;   // [experts of all layers]
  std::map<worker_id, host_entry> hosts_;
  std::map<worker_id, uint64_t> confirmed_;
  uint64_t min_confirmed_ = UINT64_MAX;        // by all routers
  std::vector<layer_placement_ptr> published_; // [layers]; null before the first routing
  uint64_t epoch_ = 0;                         // of that routing; 0: none in this term
  uint64_t num_unhosted_ = 0;                  // experts without a host in the last routing

  std::set<uint32_t> unpublished_;                  // experts whose routing is another than the published one
  std::set<worker_id> changed_;                     // hosts to examine
  std::set<worker_id> unrouted_yet_;                // hosts with first_epoch 0
  std::map<worker_id, std::vector<uint32_t>> gone_; // removed hosts to which the last routing still sends
  std::set<worker_id> unconfirmed_;                 // hosts for which some router has yet to confirm
  std::set<worker_id> with_orders_;
  uint64_t num_stuck_ = 0;    // hosts
  uint64_t num_awaiting_ = 0; // hosts
};

} // namespace troupe
