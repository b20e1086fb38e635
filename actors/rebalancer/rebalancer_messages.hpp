// What an operator may ask of the placement, and what is answered. Workers are named, as people know them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/declare_inspect.hpp"
#include "actors/first_type_ids.hpp"
#include "actors/ids.hpp"

namespace troupe {

enum class placement_action : uint8_t {
  rebalance, ///< plan now, and carry out what gains anything
  move,      ///< one expert from a host to another one
  replicate, ///< one expert has so many hosts from now on, or as many as there are
  pin,       ///< one expert has exactly these hosts from now on
  unpin,     ///< what `pin` and `replicate` said of one expert is over
  assign,    ///< these experts get exactly these hosts, and may move later
  drain,     ///< a worker holds nothing from now on
  undrain,   ///< and may again
  pause,     ///< no change by itself from now on
  resume
};

const char* to_string(placement_action action);

/// The hosts of one expert, by name.
struct named_hosts {
  expert_id expert;
  std::vector<std::string> hosts;
  bool operator==(const named_hosts&) const = default;
};

/// At most so many experts in one command.
inline constexpr size_t max_assigned_experts = size_t{1} << 16;

struct placement_command {
  placement_action action = placement_action::rebalance;
  bool dry_run = false; ///< say what it would do, and do nothing
  /// move, replicate, pin, unpin: one; assign: any number. `hosts` of pin and assign; of move the new one.
  std::vector<named_hosts> experts;
  std::string worker;    ///< drain, undrain; of move the old host
  uint32_t replicas = 0; ///< replicate
  bool operator==(const placement_command&) const = default;
};

/// What a placement costs by the model of actors/planner/placement_score.hpp, for one step.
struct predicted_step {
  uint64_t step_ns = 0;
  uint64_t busiest_ns = 0;    ///< the part that the busiest hosts take
  uint64_t messages_ppm = 0;  ///< messages, times a million
  uint64_t max_share_ppm = 0; ///< of a layer's load on its busiest host, expected, times a million
  bool operator==(const predicted_step&) const = default;
};

struct expert_change {
  expert_id expert;
  std::vector<std::string> from;
  std::vector<std::string> to;
  bool operator==(const expert_change&) const = default;
};

/// A change of the placement: what a command has begun, or would.
struct placement_change {
  uint64_t id = 0;    ///< 0: nothing is to be done, or a dry run
  std::string reason; ///< "rebalance", "imbalance", "a worker has joined", ...
  uint64_t moves = 0; ///< experts that hosts have to load
  uint64_t bytes = 0; ///< of these
  predicted_step before;
  predicted_step after;
  std::vector<expert_change> experts;
  bool operator==(const placement_change&) const = default;
};

/// How far a change has come.
struct change_progress_status {
  placement_change change; ///< of its experts those in flight: their move has begun and is not over
  uint64_t done = 0;       ///< experts that are where they should be
  uint64_t given_up = 0;   ///< experts whose move was given up, since hosts died or could not load them
  uint64_t left = 0;       ///< under way, or still to begin
  uint64_t elapsed_ms = 0;
  bool operator==(const change_progress_status&) const = default;
};

enum class planner_mode : uint8_t { off, on, paused };

const char* to_string(planner_mode mode);

struct rebalancer_status {
  planner_mode mode = planner_mode::off;
  std::vector<change_progress_status>
      changes; ///< at most one that is under way, and then at most one that is over
  std::vector<named_hosts> pins;
  std::vector<named_hosts> replicas; ///< `hosts` is one text: how many
  std::vector<std::string> drained;
  uint64_t imbalance_ppm =
      0; ///< the busiest hosts' time over that of an even load, times a million; 0: unknown
  uint64_t gain_of_one_more_ppm = 0; ///< share of a step's time that one more worker would save
  uint64_t waste_of_one_ppm = 0;     ///< share of a worker that is not needed
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
