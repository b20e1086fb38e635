// How workers join the cluster, stay in it, and learn where the experts are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/protocol/declare_inspect.hpp"
#include "actors/protocol/first_type_ids.hpp"
#include "actors/protocol/ids.hpp"
#include "actors/protocol/role_messages.hpp"

namespace troupe {

/// A worker's address: its transport endpoint, and the service name under which its actor is published.
struct worker_address {
  worker_id id;
  worker_role role = worker_role::expert;
  std::string name;     ///< "expert-1"
  std::string endpoint; ///< "host:port" of its transport; empty inside one process
  bool operator==(const worker_address&) const = default;
};

/// Progress of a worker's engine, by the worker's clock. See actors/engine/engine_watch.hpp.
struct engine_progress {
  std::uint64_t steps = 0;          ///< steps finished; a count that stands still means no progress
  std::uint64_t oldest_step_ms = 0; ///< age of the oldest unfinished step; 0: none
  std::uint64_t step_limit_ms = 0;  ///< longest age of a healthy step; 0: the worker has no engine

  /// The worker reports a hung engine. The cluster treats such a worker as dead even if its actor answers.
  bool is_stalled() const { return step_limit_ms > 0 && oldest_step_ms > step_limit_ms; }

  bool operator==(const engine_progress&) const = default;
};

/// A worker's description of itself when it joins, also when it joins a restarted scheduler.
struct worker_hello {
  worker_address address;
  std::string fingerprint;    ///< of the model; empty from a gateway, which adopts the cluster's
  std::string numerics_class; ///< "cpu/bfloat16/…"; replicas and fail-over targets share it
  /// Hash of config.json, from all roles. It is all that a gateway, which has no weights, shares with the
  /// workers. Empty: matches any.
  std::string config_id;
  std::uint64_t term = 0; ///< the newest scheduler term that it has seen
  /// [layers] experts of each decoder layer, 0 for a dense one; empty from a gateway.
  std::vector<std::uint32_t> layer_experts;
  engine_progress engine; ///< a worker with a stalled engine is refused
  role_terms of_role;     ///< of `address.role`
  bool operator==(const worker_hello&) const = default;
};

/// One expert's hosts; empty while it has none.
struct expert_hosts {
  std::vector<worker_id> hosts;
  bool operator==(const expert_hosts&) const = default;
};

/// The hosts of the experts of one layer. `version` grows with every change.
struct layer_placement {
  std::uint64_t version = 0;
  std::vector<expert_hosts> experts; ///< [experts of the layer]; empty for a dense layer
  bool operator==(const layer_placement&) const = default;
};

/// One layer's placement, shared and immutable.
using layer_placement_ptr = std::shared_ptr<const layer_placement>;

/// Hosts of all experts, as the scheduler publishes them. Ordered by (term, epoch). Consecutive placements
/// share the objects of unchanged layers, so a copy costs one pointer a layer.
struct placement {
  std::uint64_t term = 0;                  ///< of the scheduler; a restarted one takes a higher term
  std::uint64_t epoch = 0;                 ///< counts publications within the term; 0: none yet
  std::vector<layer_placement_ptr> layers; ///< [layers]; never null

  friend bool operator==(const placement& left, const placement& right) {
    return left.term == right.term && left.epoch == right.epoch
           && std::equal(left.layers.begin(), left.layers.end(), right.layers.begin(), right.layers.end(),
                         [](const auto& one, const auto& other) { return one == other || *one == *other; });
  }
};

/// The cluster as its worker sees it. The member passes it on at every change. Between processes it travels
/// as changes (view_messages.hpp).
struct cluster_view {
  placement experts;                   ///< without layers at a gateway
  std::vector<worker_address> workers; ///< all live ones, ascending by id
  bool ready = false;                  ///< every (layer, expert) has a host and there is an attention worker
  /// Longest sequence, in positions, that an attention worker takes (KV cache and model bound it); 0 while
  /// there is none.
  std::uint32_t max_model_len = 0;
  bool operator==(const cluster_view&) const = default;
};

/// A worker from which another one can copy experts.
struct weight_source {
  worker_address worker;
  std::vector<expert_id> experts; ///< ascending
  bool operator==(const weight_source&) const = default;
};

/// Scheduler to expert worker: hold exactly these experts. Answered with host_report once they are loaded.
struct host_order {
  std::uint64_t term = 0;
  std::uint64_t order = 0; ///< grows with each order to this worker and voids older ones
  std::vector<expert_id> experts;
  /// Workers from which it can copy missing experts, ascending by worker; none for a host that reads files.
  std::vector<weight_source> sources{};
  bool operator==(const host_order&) const = default;
};

struct host_report {
  std::uint64_t term = 0;
  std::uint64_t order = 0;
  std::vector<expert_id> hosted; ///< loaded and served
  std::string error;             ///< why some are missing; empty: none is
  bool operator==(const host_report&) const = default;
};

/// Worker to scheduler, every `defaults::lease_interval`: a sign of life with the worker's load.
struct lease_renewal {
  worker_id id;
  std::uint64_t term = 0;    ///< of the worker's current view
  std::uint64_t epoch = 0;   ///< of that view; the member fills in both
  std::uint64_t running = 0; ///< sequences, expert batches or a gateway's placed requests
  std::uint64_t waiting = 0; ///< sequences, rows of expert batches or a gateway's requests without a place
  engine_progress engine;
  role_load of_role;
  bool operator==(const lease_renewal&) const = default;
};

TROUPE_DECLARE_INSPECT(worker_address)
TROUPE_DECLARE_INSPECT(engine_progress)
TROUPE_DECLARE_INSPECT(worker_hello)
TROUPE_DECLARE_INSPECT(expert_hosts)
TROUPE_DECLARE_INSPECT(layer_placement)
TROUPE_DECLARE_INSPECT(layer_placement_ptr)
TROUPE_DECLARE_INSPECT(placement)
TROUPE_DECLARE_INSPECT(cluster_view)
TROUPE_DECLARE_INSPECT(weight_source)
TROUPE_DECLARE_INSPECT(host_order)
TROUPE_DECLARE_INSPECT(host_report)
TROUPE_DECLARE_INSPECT(lease_renewal)

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_cluster, troupe::first_type_id::of_cluster)
  CAF_ADD_TYPE_ID(troupe_cluster, (troupe::worker_address))
  CAF_ADD_TYPE_ID(troupe_cluster, (troupe::worker_hello))
  CAF_ADD_TYPE_ID(troupe_cluster, (troupe::cluster_view))
  CAF_ADD_TYPE_ID(troupe_cluster, (troupe::host_order))
  CAF_ADD_TYPE_ID(troupe_cluster, (troupe::host_report))
  CAF_ADD_TYPE_ID(troupe_cluster, (troupe::lease_renewal))
CAF_END_TYPE_ID_BLOCK(troupe_cluster)
