// Our own strategy: few changes of what there is, each of which gains more than it costs.
//
// Minimises placement_score::total_ns(): the expected time of each layer's busiest host over the recorded
// windows (not of their mean: "Towards MoE Deployment", section VII, minimises the maximum over batches, and
// greedy balancing of means misses what is busy together), plus messages, plus bytes moved. How many hosts a
// layer has, its degree of expert parallelism, is no setting: each layer has as many as its messages and
// loads are worth, so layers of unlike numbers of experts have unlike degrees (DeepSpeed-MoE, section 4.1.3),
// and popular experts live apart (ExpertFlow, section 3.3). Pure.
#pragma once

#include <cstdint>

#include "actors/planner/draft_placement.hpp"
#include "actors/planner/layer_search.hpp"

namespace troupe {

struct search_settings {
  /// Bound on the work: evaluations of single moves, for all layers together. One takes some 0.2 us for each
  /// ten windows.
  uint64_t max_evaluations = 10'000'000;
  /// While it gains anything, only moves from so many of a layer's hottest hosts to so many of its coolest.
  layer_search::scope narrow{3, 8};
  uint32_t moves_a_turn = 4; ///< of a layer before others may take what room there is
};

struct search_result {
  uint64_t num_evaluations = 0;
  bool is_optimum = true; ///< false: the bound came first
};

/// 1. Layers take turns at layer_search::improve() until none of them gains, in a narrow scope, then in the
/// widest.
/// 2. For each layer, what other strategies would make of it (greedy on 1, 2, 3, 4, 6, 8, 12... hosts,
/// anti-correlated,
///    replicated) is improved likewise, and kept when that costs less, all its moves included.
/// 3. Experts that have moved go back where that costs nothing.
/// The same draft gives the same result on every machine.
///
/// @param draft  valid to begin with and valid afterwards; its cost never grows
search_result search(draft_placement& draft, const search_settings& settings = {});

} // namespace troupe
