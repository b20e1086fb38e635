// The expert hosts as a planner of placements sees them, and its request to move one expert. Shared within
// the scheduler's process, never sent.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <caf/allowed_unsafe_message_type.hpp>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/expert_target.hpp"

namespace troupe {

struct fleet_host {
  worker_id id;
  std::string name;
  std::uint64_t max_experts = 0; ///< its capacity; UINT64_MAX: unlimited
  expert_work work;              ///< as of its last renewal
  bool leaves = false;           ///< it is being drained and accepts nothing
  std::string topology{};        ///< its location; empty: unknown
};

struct fleet {
  std::vector<std::uint32_t> layer_experts; ///< [layers] 0: dense; empty while no model is known
  std::uint64_t expert_bytes = 0;           ///< packed size of the largest expert
  std::uint32_t num_replicas = 1;           ///< fewest replicas of each expert
  std::uint32_t small_cluster = 0;          ///< up to this many hosts, a layer lives on all of them
  std::vector<fleet_host> hosts;            ///< ascending by id
  /// [layers][experts] hosts that should hold the expert, ascending.
  std::vector<std::vector<std::vector<worker_id>>> target;
  bool is_settled = false; ///< every expert is in its place, and all workers know it
};

/// Gives one expert exactly these hosts.
struct expert_move {
  expert_target to;
  std::vector<worker_id> from; ///< current target as the planner knows it; the move is void if it differs
};

/// How often recent tokens chose each expert.
struct expert_activity {
  std::vector<std::vector<std::uint64_t>> rows; ///< [layers][experts]
};

using fleet_ptr = std::shared_ptr<const fleet>;
using expert_move_ptr = std::shared_ptr<const expert_move>;
/// Names of the workers that must hold nothing.
using drained_ptr = std::shared_ptr<const std::set<std::string>>;
using expert_activity_ptr = std::shared_ptr<const expert_activity>;

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::fleet_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::expert_move_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::drained_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::expert_activity_ptr)
