// What whoever plans the placement must know of the expert hosts, and how one expert's move is asked for.
// Local to the scheduler's process: shared, never sent.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <caf/allowed_unsafe_message_type.hpp>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/expert_target.hpp"

namespace troupe {

struct fleet_host {
  worker_id id;
  std::string name;
  uint64_t max_experts = 0; ///< that it can hold; UINT64_MAX: any number
  expert_work work;         ///< as of its last renewal
  bool leaves = false;      ///< it is being relieved, and takes nothing
};

struct fleet {
  std::vector<uint32_t> layer_experts; ///< [layers] 0: dense; empty while no model is known
  uint64_t expert_bytes = 0;           ///< packed size of the largest expert
  uint32_t num_replicas = 1;           ///< that each expert should have at least
  uint32_t small_cluster = 0;          ///< up to so many hosts a layer is meant to live on all of them
  std::vector<fleet_host> hosts;       ///< ascending by id
  /// [layers][experts] hosts that should hold it, ascending.
  std::vector<std::vector<std::vector<worker_id>>> target;
  bool is_settled = false; ///< every expert is where it should be, and everybody knows
};

/// One expert is to have these hosts and no others.
struct expert_move {
  expert_target to;
  std::vector<worker_id> from; ///< that it should have by what the planner knows; else the move is void
};

using fleet_ptr = std::shared_ptr<const fleet>;
using expert_move_ptr = std::shared_ptr<const expert_move>;
/// Names of workers that shall hold nothing.
using drained_ptr = std::shared_ptr<const std::set<std::string>>;

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::fleet_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::expert_move_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::drained_ptr)
