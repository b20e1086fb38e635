// The input of a planner: measurements, possible hosts, constraints and costs. Plain structs, independent of
// their source.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/protocol/expert_target.hpp"
#include "actors/protocol/ids.hpp"

namespace troupe {

/// [layers][experts of the layer]; no experts for a dense layer.
template <class T>
using expert_table = std::vector<std::vector<T>>;

/// Activations of one batch, or of one interval of a recording.
struct planner_window {
  expert_table<float> rows;
  double weight = 1; ///< relative to other windows, such as its decay by age
  /// Micro-batches that the rows come from, so that rows / num_steps is one step's. 0: unknown; a step then
  /// has planner_costs::rows_per_step rows a layer.
  double num_steps = 0;
};

struct planner_history {
  /// Decayed counts of all rows so far; may be empty. Only their shares within a layer matter.
  expert_table<double> counts;
  std::vector<planner_window> windows; ///< recent ones, unchanged; may be empty
};

/// A possible host of experts.
struct planner_worker {
  worker_id id;
  std::uint64_t max_experts = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t memory_bytes = std::numeric_limits<std::uint64_t>::max(); ///< for experts
  double speed = 1;       ///< measured; 1 is the cluster's median, 2 takes half the time
  std::string topology{}; ///< its location; an expert's hosts should differ in it. Empty: unknown
};

struct planner_constraints {
  std::vector<expert_target> pins; ///< exactly these hosts, as far as they are present and not drained
  std::set<worker_id> drained;     ///< must hold nothing
  std::uint32_t min_replicas = 1;  ///< of each expert, as far as memory allows
  std::map<expert_id, std::uint32_t> more_replicas; ///< of single experts, if greater than min_replicas
  std::uint32_t max_replicas = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t max_layer_experts = std::numeric_limits<std::uint32_t>::max(); ///< of one layer on one host
};

/// Costs of one step (a micro-batch on its way through all layers), in ns.
struct planner_costs {
  double expert_ns = 150'000;    ///< an active expert, whatever its rows: streaming its weights
  double row_ns = 0;             ///< each row of an expert
  double message_ns = 140'000;   ///< each host that a micro-batch touches in a layer
  double load_ns_per_byte = 1;   ///< the cluster's loss for each byte that a host loads
  double load_ns = 1'000'000;    ///< the same for each expert
  double horizon_steps = 10'000; ///< steps within which a move must recover its cost
  /// (row, expert) pairs of a layer in a step, if no window tells: 64 rows that choose 8 experts.
  double rows_per_step = 512;
};

// Measurements of expert_ns and message_ns: docs/decisions/0009-placement-in-proportion.md.

struct planner_input {
  planner_history history;
  std::vector<planner_worker> workers;
  std::vector<std::uint64_t> expert_bytes; ///< [layers] of one expert
  /// The present hosts; those not among `workers` are gone. The shape [layers][experts] determines the
  /// experts of each layer; other members of another shape are ignored.
  expert_table<std::vector<worker_id>> present;
  planner_constraints constraints;
  planner_costs costs;
};

} // namespace troupe
