// From the placement that should be to the one that is, without a stall: which experts each worker is told to
// hold, where attention workers are told to send rows, and when an old host may let go. Pure.
//
//   target ──► order (load) ──► report ──► route to the new host, publish ──► every attention worker confirms
//          ──► order (release)
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/ids.hpp"
#include "actors/scheduler/placement_solver.hpp"

namespace troupe {

class placement_rollout {
 public:
  /// Forgets everything and starts with another model's layers.
  void set_layers(std::vector<uint32_t> layer_experts);

  /// [layers] experts of each; empty before `set_layers`.
  const std::vector<uint32_t>& layer_experts() const { return layer_experts_; }

  /// Adds an expert worker with what it hosts, or replaces what is known of it.
  void add_host(worker_id id, uint64_t max_experts, const std::vector<expert_id>& hosted);
  void remove_host(worker_id id);

  /// The worker leaves: it keeps what it has until others have it.
  void retire_host(worker_id id);

  /// What the worker hosts by its own word.
  void reported(worker_id id, const std::vector<expert_id>& hosted);

  /// Attention workers confirm the epochs that they route by.
  void add_router(worker_id id) { confirmed_[id] = 0; }

  void remove_router(worker_id id) { confirmed_.erase(id); }

  /// True when that is news.
  bool confirmed(worker_id id, uint64_t epoch);
  /// A new term counts its epochs from the start.
  void restart_epochs();

  /// Computes anew who should host what, with as few moves as balance allows, or none but for experts that
  /// lack hosts.
  void retarget(uint32_t num_replicas, bool rebalance);

  /// Is the routing that `route` would give another than the last one?
  bool wants_route() const;

  /// Takes the routing to be published as (term, epoch): every expert's target hosts once all of them have
  /// it, until then every worker that has it. Layers that change get the version term × 2^32 + epoch, which
  /// grows across terms.
  placement route(uint64_t term, uint64_t epoch);

  /// Has every expert a host in the last routing?
  bool is_complete() const;

  /// The next order for a worker, if it should change what it hosts: first what nobody hosts, never more than
  /// fits, at most defaults::max_experts_per_order new ones. What the order leaves out is not routed to
  /// again.
  std::optional<std::vector<expert_id>> next_order(worker_id id);

  /// Workers that should hold more, but have no room until others take over from them.
  bool is_stuck() const;

  /// Does a release wait for an attention worker to confirm?
  bool awaits_confirmation() const;

  /// Does nothing depend on this worker any more?
  bool is_free(worker_id id) const;

  std::vector<expert_id> hosted(worker_id id) const;

  size_t num_hosts() const { return hosts_.size(); }

 private:
  struct host_entry {
    uint64_t max_experts = unlimited_experts;
    bool retired = false;
    std::vector<bool> hosted;       ///< [experts of all layers]
    std::vector<bool> target;       ///< [experts of all layers]
    std::vector<uint64_t> unrouted; ///< first epoch that does not route the expert here; 0: routed
  };

  size_t flat(expert_id id) const { return first_[id.layer] + id.index; }

  expert_id unflat(size_t expert) const;
  bool is_known(expert_id id) const;
  std::vector<worker_id> routing_of(size_t expert) const;
  bool is_releasable(const host_entry& host, size_t expert) const;
  uint64_t num_keeping(const host_entry& host) const;

  std::vector<uint32_t> layer_experts_; // [layers]
  std::vector<size_t> first_;           // [layers + 1] flat index of each layer's expert 0
  std::map<worker_id, host_entry> hosts_;
  std::map<worker_id, uint64_t> confirmed_;
  std::vector<std::vector<worker_id>> routed_; // [experts of all layers]
  std::vector<uint64_t> versions_;             // [layers]
};

} // namespace troupe
