// Carries out a target placement without a stall: which experts each host is ordered to hold, where attention
// workers send rows, and when an old host may let go. Pure.
//
//   target ──► order (load) ──► report ──► route to the new host, publish ──► every attention worker confirms
//          ──► order (release)
//
// Changes are remembered, so that nothing is searched: the cost of a call is proportional to the experts that
// it changes and to the experts of the hosts that hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/ids.hpp"
#include "actors/scheduler/placement_target.hpp"

namespace troupe {

class placement_rollout {
 public:
  /// A routing to publish, and the layers in which it differs from the one before.
  struct publication {
    placement experts;
    std::vector<std::uint32_t> changed_layers; ///< ascending
  };

  /// Forgets everything but the routers, and starts with another model's layers.
  void set_layers(std::vector<std::uint32_t> layer_experts);

  // Hosts.

  /// Adds a host with what it has loaded, or updates a known one. What it should hold stays.
  void add_host(worker_id id, std::uint64_t max_experts, const std::vector<expert_id>& hosted);
  /// The host is gone. Its experts lack a host until the next retarget().
  void remove_host(worker_id id);
  /// The host has reported what it has loaded. Unknown experts are ignored.
  void reported(worker_id id, const std::vector<expert_id>& hosted);
  /// Sets the hosts that should hold these experts; the targets of other experts stay. Unknown hosts are
  /// ignored. A host that leaves is no target of any expert: it keeps what it has until others have it.
  void retarget(const std::vector<expert_target>& targets);

  // Routers: attention workers, which confirm the epochs that they route by.

  void add_router(worker_id id);
  void remove_router(worker_id id);
  /// @returns whether that is news
  bool confirmed(worker_id id, std::uint64_t epoch);
  /// A new term counts its epochs from the start.
  void restart_epochs();

  // What to publish.

  /// Would `route` give another routing than the last one, or the first of a term that hosts wait for?
  bool wants_route() const { return !unpublished_.empty() || !unrouted_yet_.empty(); }

  /// Takes the routing to be published as (term, epoch): every expert's target hosts once all of them have
  /// it, until then every host that has it. Layers that change get the version term × 2^32 + epoch, which
  /// grows across terms.
  publication route(std::uint64_t term, std::uint64_t epoch);

  /// Has every expert a host in the last routing?
  bool is_complete() const { return !layer_experts_.empty() && num_unhosted_ == 0; }

  // What to order.

  /// Hosts for which next_order() has an order, ascending.
  const std::set<worker_id>& hosts_with_orders() const { return with_orders_; }

  /// The next order for a host, if it should change what it holds. Experts without a host come first; the
  /// order never has more than fits, and at most defaults::max_experts_per_order new experts. No routing
  /// sends rows for an expert that the order leaves out.
  /// @return all that it is to hold, ascending
  std::optional<std::vector<expert_id>> next_order(worker_id id);

  /// Does a host lack room for what it should hold, until others take over from it?
  bool is_stuck() const { return num_stuck_ > 0; }

  /// Does a release wait for an attention worker to confirm?
  bool awaits_confirmation() const { return num_awaiting_ > 0; }

  /// Has the host loaded all that it should hold? True for one that should hold nothing.
  bool has_all(worker_id id) const;

  /// Does nothing depend on this host any more?
  bool is_free(worker_id id) const;

  // Progress.

  /// Is the expert loaded where it should be and nowhere else, and have all routers confirmed that?
  bool is_carried_out(expert_id expert) const;

  std::vector<expert_id> hosted(worker_id id) const;

  /// The hosts that have the expert loaded, ascending; valid until the next change. A loaded_lookup.
  std::span<const worker_id> hosts_with(expert_id expert) const;

  std::size_t num_hosts() const { return hosts_.size(); }

 private:
  /// An expert on a host.
  struct holding {
    bool hosted = false;
    bool target = false;
    bool routed = false;        ///< by the last routing
    std::uint64_t unrouted = 0; ///< the epoch that stopped routing here; 0: see host_entry::first_epoch
  };

  struct host_entry {
    std::uint64_t max_experts = 0;
    /// Epoch that was current when the host joined, or the first one of a later term. An expert that no epoch
    /// since then routed here was never routed here. 0: none is published yet.
    std::uint64_t first_epoch = 0;
    std::map<std::uint32_t, holding> experts; ///< by flat index: hosted, to be hosted, or routed here
    // Derived by examine().
    std::uint64_t num_keeping = 0; ///< hosts and may not let go
    bool is_missing = false;       ///< an expert that it should hold
    bool has_order = false;
    bool is_stuck = false;
    bool is_awaiting = false;
  };

  struct expert_entry {
    std::uint32_t layer = 0;
    // Ascending.
    std::vector<worker_id> hosted;
    std::vector<worker_id> target;
    std::vector<worker_id> routed;
  };

  expert_id id_of(std::uint32_t expert) const {
    return {experts_[expert].layer, expert - first_[experts_[expert].layer]};
  }

  bool is_known(expert_id id) const {
    return id.layer < layer_experts_.size() && id.index < layer_experts_[id.layer];
  }

  std::uint32_t flat(expert_id id) const { return first_[id.layer] + id.index; }

  const std::vector<worker_id>& routing_of(const expert_entry& expert) const;
  /// First epoch that does not route the expert to the host; 0: routed, or not known yet.
  static std::uint64_t unrouted_since(const host_entry& host, const holding& expert);
  bool is_releasable(worker_id id, const host_entry& host, std::uint32_t expert, const holding& held) const;
  void set_hosted(worker_id id, host_entry& host, const std::vector<expert_id>& hosted);
  /// The expert has changed hosts or targets.
  void touch(std::uint32_t expert);
  /// Derives the fields of the hosts that have changed.
  void examine_changed();
  void examine(worker_id id, host_entry& host);
  void confirmations_changed();

  std::vector<std::uint32_t> layer_experts_; // [layers]
  std::vector<std::uint32_t> first_;         // [layers] flat index of each layer's expert 0
  std::vector<expert_entry> experts_;        // [experts of all layers]
  std::map<worker_id, host_entry> hosts_;
  std::map<worker_id, std::uint64_t> confirmed_;
  std::uint64_t min_confirmed_ = UINT64_MAX;   // by all routers
  std::vector<layer_placement_ptr> published_; // [layers]; null before the first routing
  std::uint64_t epoch_ = 0;                    // of that routing; 0: none in this term
  std::uint64_t num_unhosted_ = 0;             // experts without a host in the last routing

  std::set<std::uint32_t> unpublished_; // experts whose routing is another than the published one
  std::set<worker_id> changed_;         // hosts to examine
  std::set<worker_id> unrouted_yet_;    // hosts with first_epoch 0
  std::map<worker_id, std::vector<std::uint32_t>>
      gone_;                        // removed hosts to which the last routing still sends
  std::set<worker_id> unconfirmed_; // hosts for which some router has yet to confirm
  std::set<worker_id> with_orders_;
  std::uint64_t num_stuck_ = 0;    // hosts
  std::uint64_t num_awaiting_ = 0; // hosts
};

} // namespace troupe
