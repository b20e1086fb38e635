// How attention workers and gateways learn the scheduler's view: the whole once, then changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/declare_inspect.hpp"
#include "actors/protocol/encoded_once.hpp"
#include "actors/protocol/first_type_ids.hpp"
#include "actors/protocol/ids.hpp"

namespace troupe {

struct changed_layer {
  std::uint32_t index = 0;
  layer_placement_ptr layer; ///< not null

  friend bool operator==(const changed_layer& left, const changed_layer& right) {
    return left.index == right.index
           && (left.layer == right.layer || (left.layer && right.layer && *left.layer == *right.layer));
  }
};

/// The difference between two published cluster_views: see view_change.hpp. Attention workers get it with
/// layers; gateways, which route no rows, without.
struct view_change {
  std::uint64_t term = 0;
  /// Epoch of the only view to which it applies; 0: it is whole and replaces any older view.
  std::uint64_t from_epoch = 0;
  std::uint64_t epoch = 0;            ///< of the resulting view; 0: nothing is published yet
  std::uint32_t num_layers = 0;       ///< of the resulting view; 0 for gateways
  std::vector<changed_layer> layers;  ///< ascending by index
  std::vector<worker_address> joined; ///< ascending by id; for a known worker, its new address
  std::vector<worker_id> left;        ///< ascending
  bool ready = false;                 ///< as in cluster_view, like the next
  std::uint32_t max_model_len = 0;
  bool operator==(const view_change&) const = default;
};

/// One publication goes to all attention workers, one to all gateways.
using shared_view_change = encoded_once<view_change>;

/// Scheduler to a joining worker.
struct worker_welcome {
  std::uint64_t term = 0;
  std::string fingerprint;  ///< of the cluster's model; empty while no worker has brought one
  shared_view_change view;  ///< whole; empty for expert hosts, which follow their orders
  bool tells_ready = false; ///< an expert worker will be sent ready_atom; older schedulers send none
  bool operator==(const worker_welcome&) const = default;
};

TROUPE_DECLARE_INSPECT(changed_layer)
TROUPE_DECLARE_INSPECT(view_change)
TROUPE_DECLARE_INSPECT(worker_welcome)

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_view, troupe::first_type_id::of_view)
  CAF_ADD_TYPE_ID(troupe_view, (troupe::worker_welcome))
  CAF_ADD_TYPE_ID(troupe_view, (troupe::shared_view_change))
CAF_END_TYPE_ID_BLOCK(troupe_view)
