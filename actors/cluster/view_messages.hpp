// How attention workers and gateways learn what the scheduler publishes: all of it once, then what changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/cluster/encoded_once.hpp"
#include "actors/declare_inspect.hpp"
#include "actors/first_type_ids.hpp"
#include "actors/ids.hpp"

namespace troupe {

struct changed_layer {
  uint32_t index = 0;
  layer_placement_ptr layer; ///< not null

  friend bool operator==(const changed_layer& left, const changed_layer& right) {
    return left.index == right.index
           && (left.layer == right.layer || (left.layer && right.layer && *left.layer == *right.layer));
  }
};

/// What leads from one published cluster_view to a later one: see view_change.hpp. Attention workers get it
/// with layers; gateways, which route no rows, without any.
struct view_change {
  uint64_t term = 0;
  /// Of the view that it applies to, and to no other; 0: it is whole, and replaces any older view.
  uint64_t from_epoch = 0;
  uint64_t epoch = 0;                 ///< of the view that it leads to; 0: nothing is published yet
  uint32_t num_layers = 0;            ///< of that view; 0 for gateways
  std::vector<changed_layer> layers;  ///< ascending by index
  std::vector<worker_address> joined; ///< ascending by id; of one that is known it is the new address
  std::vector<worker_id> left;        ///< ascending
  bool ready = false;                 ///< as in cluster_view, like the next
  uint32_t max_model_len = 0;
  bool operator==(const view_change&) const = default;
};

/// One publication goes to every attention worker, and one to every gateway.
using shared_view_change = encoded_once<view_change>;

/// Scheduler to a joining worker.
struct worker_welcome {
  uint64_t term = 0;
  std::string fingerprint; ///< the cluster's model; empty while no worker has brought one
  shared_view_change view; ///< whole; nothing for expert hosts, which go by their orders
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
