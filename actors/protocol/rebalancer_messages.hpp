// Operator's commands about the placement, and their answers. Workers are given by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/protocol/declare_inspect.hpp"
#include "actors/protocol/first_type_ids.hpp"
#include "actors/protocol/ids.hpp"

namespace troupe {

enum class placement_action : std::uint8_t {
  rebalance, ///< plan now, and carry out every gain
  move,      ///< one expert from one host to another
  replicate, ///< one expert has N hosts from now on, or as many as there are
  pin,       ///< one expert has exactly these hosts from now on
  unpin,     ///< ends `pin` and `replicate` of one expert
  assign,    ///< these experts get exactly these hosts, and may move later
  drain,     ///< a worker holds nothing from now on
  undrain,   ///< ends `drain`
  pause,     ///< no automatic changes from now on
  resume
};

const char* to_string(placement_action action);

/// The hosts of one expert, by name.
struct named_hosts {
  expert_id expert;
  std::vector<std::string> hosts;
  bool operator==(const named_hosts&) const = default;
};

/// Most experts in one command.
inline constexpr std::size_t max_assigned_experts = std::size_t{1} << 16;

struct placement_command {
  placement_action action = placement_action::rebalance;
  bool dry_run = false; ///< plan, report and change nothing
  /// move, replicate, pin, unpin: one; assign: any number. `hosts`: of pin and assign the hosts, of move the
  /// new one.
  std::vector<named_hosts> experts;
  std::string worker;         ///< of drain, undrain; of move the old host
  std::uint32_t replicas = 0; ///< replicate
  bool operator==(const placement_command&) const = default;
};

/// Predicted costs of one step, by the model of actors/planner/placement_score.hpp.
struct predicted_step {
  std::uint64_t step_ns = 0;
  std::uint64_t busiest_ns = 0;    ///< time of the busiest hosts
  std::uint64_t messages_ppm = 0;  ///< messages × 1,000,000
  std::uint64_t max_share_ppm = 0; ///< expected largest share of a layer's load on one host × 1,000,000
  bool operator==(const predicted_step&) const = default;
};

struct expert_change {
  expert_id expert;
  std::vector<std::string> from;
  std::vector<std::string> to;
  bool operator==(const expert_change&) const = default;
};

/// A change of the placement: begun by a command, or proposed by a dry run.
struct placement_change {
  std::uint64_t id = 0;    ///< 0: nothing to do, or a dry run
  std::string reason;      ///< "rebalance", "imbalance", "a worker has joined", ...
  std::uint64_t moves = 0; ///< experts that hosts have to load
  std::uint64_t bytes = 0; ///< size of these experts
  predicted_step before;
  predicted_step after;
  std::vector<expert_change> experts;
  bool operator==(const placement_change&) const = default;
};

/// How far a change has come.
struct change_progress_status {
  placement_change change;    ///< of its experts, those whose move is in progress
  std::uint64_t done = 0;     ///< experts in their place
  std::uint64_t given_up = 0; ///< experts whose move was given up because hosts died or failed to load
  std::uint64_t left = 0;     ///< under way, or still to begin
  std::uint64_t elapsed_ms = 0;
  bool operator==(const change_progress_status&) const = default;
};

enum class planner_mode : std::uint8_t { off, on, paused };

const char* to_string(planner_mode mode);

struct rebalancer_status {
  planner_mode mode = planner_mode::off;
  std::vector<change_progress_status> changes; ///< at most one in progress, then at most one finished
  std::vector<named_hosts> pins;
  std::vector<named_hosts> replicas; ///< `hosts` is one text: the number
  std::vector<std::string> drained;
  std::uint64_t imbalance_ppm =
      0; ///< the busiest hosts' time over that of an even load × 1,000,000; 0: unknown
  std::uint64_t wanted_workers = 0; ///< expected number of expert workers; 0: not known yet
  bool operator==(const rebalancer_status&) const = default;
};

TROUPE_DECLARE_INSPECT(named_hosts)
TROUPE_DECLARE_INSPECT(placement_command)
TROUPE_DECLARE_INSPECT(predicted_step)
TROUPE_DECLARE_INSPECT(expert_change)
TROUPE_DECLARE_INSPECT(placement_change)
TROUPE_DECLARE_INSPECT(change_progress_status)
TROUPE_DECLARE_INSPECT(rebalancer_status)

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_rebalancer, troupe::first_type_id::of_rebalancer)
  CAF_ADD_TYPE_ID(troupe_rebalancer, (troupe::placement_command))
  CAF_ADD_TYPE_ID(troupe_rebalancer, (troupe::placement_change))
  CAF_ADD_TYPE_ID(troupe_rebalancer, (troupe::rebalancer_status))
CAF_END_TYPE_ID_BLOCK(troupe_rebalancer)
