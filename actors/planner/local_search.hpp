// Our own strategy: few changes of the present placement, each of which gains more than it costs.
//
// Minimises placement_score::total_ns(): the expected time of each layer's busiest host over the recorded
// windows, plus messages, plus bytes moved. (Not the time of the mean window: "Towards MoE Deployment",
// section VII, minimises the maximum over batches, and greedy balancing of means misses experts that are busy
// together.) The number of hosts of a layer, its degree of expert parallelism, is no setting: it follows from
// the layer's messages and loads. So layers with different numbers of experts have different degrees
// (DeepSpeed-MoE, section 4.1.3), and popular experts live apart (ExpertFlow, section 3.3). Pure.
#pragma once

#include <cstdint>

#include "actors/planner/draft_placement.hpp"
#include "actors/planner/layer_search.hpp"

namespace troupe {

struct search_settings {
  /// Bound on the work: evaluations of single moves, over all layers. One takes some 0.2 µs per ten windows.
  std::uint64_t max_evaluations = 10'000'000;
  /// First scope, used while it gains: moves from the N hottest to the M coolest hosts of a layer.
  layer_search::scope narrow{3, 8};
  std::uint32_t moves_a_turn = 4; ///< of a layer before other layers may use the room
};

struct search_result {
  std::uint64_t num_evaluations = 0;
  bool is_optimum = true; ///< false: the bound was reached first
};

/// 1. Layers take turns at layer_search::improve() until none gains, in a narrow scope, then in the widest.
/// 2. For each layer, the results of other strategies (greedy on 1, 2, 3, 4, 6, 8, 12... hosts,
/// anti-correlated, replicated) are improved in the same way, and kept if they cost less, including all
/// moves.
/// 3. Moved experts go back where that costs nothing. The same draft gives the same result on every machine.
///
/// @param draft  valid before and after; its cost never grows
search_result search(draft_placement& draft, const search_settings& settings = {});

} // namespace troupe
