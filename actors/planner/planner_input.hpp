// What a placement is planned from: what was measured, who could host, what must hold, what things cost.
// Plain structs; nothing here knows where they come from.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "actors/expert_target.hpp"
#include "actors/ids.hpp"

namespace troupe {

/// [layers][experts of the layer]; no experts for a dense layer.
template <class T>
using expert_table = std::vector<std::vector<T>>;

/// Activations that belong together: one batch, or one interval of a recording.
struct planner_window {
  expert_table<float> rows;
  double weight = 1; ///< relative to other windows, such as its decay by age
  /// Micro-batches that the rows are of, so that rows / num_steps is one step's. 0: unknown; then a step is
  /// taken to have planner_costs::rows_per_step rows a layer.
  double num_steps = 0;
};

struct planner_history {
  /// Decayed counts of rows of all time; may be empty. Only their shares within a layer matter.
  expert_table<double> counts;
  std::vector<planner_window> windows; ///< recent ones, as they were; may be empty
};

/// A host that could hold experts.
struct planner_worker {
  worker_id id;
  uint64_t max_experts = std::numeric_limits<uint64_t>::max();
  uint64_t memory_bytes = std::numeric_limits<uint64_t>::max(); ///< for experts
  double speed = 1; ///< measured; 1 is the cluster's median, 2 takes half the time
};

struct planner_constraints {
  std::vector<expert_target> pins; ///< exactly these hosts, as far as they are there and not drained
  std::set<worker_id> drained;     ///< hold nothing
  uint32_t min_replicas = 1;       ///< of each expert, as far as memory goes
  std::map<expert_id, uint32_t> more_replicas; ///< of single experts, where that is more than min_replicas
  uint32_t max_replicas = std::numeric_limits<uint32_t>::max();
  uint32_t max_layer_experts = std::numeric_limits<uint32_t>::max(); ///< of one layer on one host
};

/// Times of one step, a micro-batch on its way through all layers, in ns.
struct planner_costs {
  double expert_ns = 150'000;    ///< an active expert, whatever its rows: to stream its weights
  double row_ns = 0;             ///< each row of an expert
  double message_ns = 140'000;   ///< each host that a micro-batch touches in a layer
  double load_ns_per_byte = 1;   ///< what the cluster loses for each byte that a host loads
  double load_ns = 1'000'000;    ///< and for each expert
  double horizon_steps = 10'000; ///< steps within which a move must have gained what it costs
  /// (row, expert) pairs of a layer in a step where no window says so: 64 rows that choose 8 experts.
  double rows_per_step = 512;
};

// expert_ns and message_ns: docs/decisions/0009-placement-in-proportion.md.

struct planner_input {
  planner_history history;
  std::vector<planner_worker> workers;
  std::vector<uint64_t> expert_bytes; ///< [layers] of one expert
  /// Where experts are now; hosts that are not among `workers` are gone. Shape [layers][experts] decides how
  /// many experts a layer has; everything else of another shape is ignored.
  expert_table<std::vector<worker_id>> present;
  planner_constraints constraints;
  planner_costs costs;
};

} // namespace troupe
