// How workers join the cluster, stay in it, and learn where the experts are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/declare_inspect.hpp"
#include "actors/first_type_ids.hpp"
#include "actors/ids.hpp"

namespace troupe {

enum class worker_role : uint8_t { gateway = 0, attention = 1, expert = 2 };

std::string to_string(worker_role role);

/// Where a worker is found: its transport endpoint, and the service name its actor is published under.
struct worker_address {
  worker_id id;
  worker_role role = worker_role::expert;
  std::string name;     ///< "expert-1"
  std::string endpoint; ///< "host:port" of its transport, or empty inside one process
  bool operator==(const worker_address&) const = default;
};

/// How a worker's engine gets on, by the worker's own clock. See actors/engine/engine_watch.hpp.
struct engine_progress {
  uint64_t steps = 0;          ///< that the engine has given back; a count that stands still is no progress
  uint64_t oldest_step_ms = 0; ///< age of the oldest step that it has not given back; 0: it has none
  uint64_t step_limit_ms = 0;  ///< how old a step may get; 0: the worker has no engine

  /// By the worker's own word. Such a worker is dead to the cluster, whatever its actor says.
  bool is_stalled() const { return step_limit_ms > 0 && oldest_step_ms > step_limit_ms; }

  bool operator==(const engine_progress&) const = default;
};

/// What an expert host has computed since it started.
struct expert_work {
  uint64_t busy_ns = 0; ///< that its engine took
  uint64_t runs = 0;    ///< experts, each once for every step that had rows for it
  uint64_t rows = 0;    ///< (row, expert) pairs
  bool operator==(const expert_work&) const = default;
};

/// One worker that owes another an answer: an expert host an attention worker, or an attention worker the
/// sessions of a gateway.
struct complaint {
  worker_id about;
  uint64_t silent_ms = 0; ///< how long it has said nothing while something was owed
  bool operator==(const complaint&) const = default;
};

/// What a request of a gateway holds at an attention worker.
struct held_place {
  request_id request;
  worker_id worker;
  uint32_t num_seqs = 0;
  uint64_t kv_tokens = 0;
  bool operator==(const held_place&) const = default;
};

/// Where an expert worker gets the weights of experts that it is ordered to host.
enum class weight_origin : uint8_t {
  files = 0,            ///< from its model folder only
  peers_then_files = 1, ///< from a worker that has them, or its model folder
  peers = 2,            ///< it has no files
};

/// What a worker says of itself when it joins, and again when it joins a restarted scheduler.
struct worker_hello {
  worker_address address;
  std::string fingerprint;    ///< of the model; empty from a gateway, which takes the cluster's
  std::string numerics_class; ///< "cpu/bfloat16/…"; replicas and fail-over targets share it
  uint64_t term = 0;          ///< the newest scheduler term that it has seen
  /// [layers] experts of each decoder layer, 0 for a dense one; from attention and expert workers.
  std::vector<uint32_t> layer_experts;
  // Attention workers.
  uint32_t max_num_seqs = 0;
  uint64_t kv_capacity_tokens = 0;
  uint32_t max_model_len = 0;
  std::vector<sequence_id> running; ///< sequences that it is working on
  // Expert workers.
  uint64_t expert_memory_bytes = 0; ///< what it may hold; 0: as much as needed
  uint64_t expert_bytes = 0;        ///< packed size of its largest expert
  std::vector<expert_id> hosted;    ///< experts already loaded
  weight_origin weights = weight_origin::files;
  // Attention and expert workers.
  engine_progress engine; ///< who joins with a stalled engine is refused
  // Gateways.
  std::vector<held_place> places; ///< of its requests; the scheduler frees what it is not told of
  bool operator==(const worker_hello&) const = default;
};

/// One expert's hosts; empty while nobody hosts it.
struct expert_hosts {
  std::vector<worker_id> hosts;
  bool operator==(const expert_hosts&) const = default;
};

/// Where the experts of one layer live. `version` grows whenever anything in it changes.
struct layer_placement {
  uint64_t version = 0;
  std::vector<expert_hosts> experts; ///< [experts of the layer]; empty for a dense layer
  bool operator==(const layer_placement&) const = default;
};

/// One layer's placement, which many may hold and nobody changes.
using layer_placement_ptr = std::shared_ptr<const layer_placement>;

/// Where all experts live, as the scheduler publishes it. Ordered by (term, epoch). A layer that has not
/// changed is the same object in the scheduler's next placement, so a copy costs one pointer a layer.
struct placement {
  uint64_t term = 0;  ///< of the scheduler; a restarted one takes a higher term
  uint64_t epoch = 0; ///< counts publications within the term; 0: nothing is published yet
  std::vector<layer_placement_ptr> layers; ///< [layers]; none of them null

  friend bool operator==(const placement& left, const placement& right) {
    return left.term == right.term && left.epoch == right.epoch
           && std::equal(left.layers.begin(), left.layers.end(), right.layers.begin(), right.layers.end(),
                         [](const auto& one, const auto& other) { return one == other || *one == *other; });
  }
};

/// The cluster as a worker needs to see it, handed to it by its member whenever it changes. Between processes
/// it travels as changes (view_messages.hpp).
struct cluster_view {
  placement experts;                   ///< without layers at a gateway
  std::vector<worker_address> workers; ///< all live ones, ascending by id
  bool ready = false;                  ///< every (layer, expert) has a host and there is an attention worker
  /// Positions of the longest sequence that an attention worker takes, by its KV cache and the model; 0 while
  /// there is none.
  uint32_t max_model_len = 0;
  bool operator==(const cluster_view&) const = default;
};

/// A worker that has experts loaded which another one is to load.
struct weight_source {
  worker_address worker;
  std::vector<expert_id> experts; ///< ascending
  bool operator==(const weight_source&) const = default;
};

/// Scheduler to an expert worker: hold exactly these experts. Answered with host_report once they are loaded.
struct host_order {
  uint64_t term = 0;
  uint64_t order = 0; ///< grows with each order to this worker; an older one is void
  std::vector<expert_id> experts;
  /// Who can give it those that it has yet to load, ascending by worker; none to a host that reads files.
  std::vector<weight_source> sources{};
  bool operator==(const host_order&) const = default;
};

struct host_report {
  uint64_t term = 0;
  uint64_t order = 0;
  std::vector<expert_id> hosted; ///< loaded and served now
  std::string error;             ///< why some are missing; empty when all are there
  bool operator==(const host_report&) const = default;
};

/// Every `defaults::lease_interval`, worker to scheduler: I live, and this is my load.
struct lease_renewal {
  worker_id id;
  uint64_t term = 0;                 ///< of the view that the worker goes by
  uint64_t epoch = 0;                ///< of that view; the member fills in both
  uint64_t running = 0;              ///< sequences (attention), expert batches in flight (expert)
  uint64_t waiting = 0;              ///< sequences (attention), rows queued (expert)
  uint64_t kv_tokens_used = 0;       ///< attention
  engine_progress engine;            ///< attention and expert workers
  uint64_t at_experts = 0;           ///< attention: micro-batches that wait for expert hosts
  std::vector<complaint> complaints; ///< attention: about expert hosts; gateway: about attention workers
  expert_work work;                  ///< expert workers
  bool operator==(const lease_renewal&) const = default;
};

TROUPE_DECLARE_INSPECT(worker_address)
TROUPE_DECLARE_INSPECT(engine_progress)
TROUPE_DECLARE_INSPECT(expert_work)
TROUPE_DECLARE_INSPECT(complaint)
TROUPE_DECLARE_INSPECT(held_place)
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
