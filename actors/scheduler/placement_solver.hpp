// Which expert worker should host which expert: a balanced static placement with few moves. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "actors/ids.hpp"

namespace troupe {

inline constexpr uint64_t unlimited_experts = std::numeric_limits<uint64_t>::max();

struct placement_worker {
  worker_id id;
  uint64_t max_experts = unlimited_experts; ///< that fit into its memory
};

struct placement_problem {
  std::vector<uint32_t> layer_experts; ///< [layers] experts of each layer, 0 for a dense one
  std::vector<placement_worker> workers;
  uint32_t num_replicas = 1;
  /// Move experts until every layer is spread evenly; otherwise only what lacks hosts is placed.
  bool rebalance = true;
};

/// Hosts of every expert: [layers][experts][replicas], each list ascending.
using expert_placement = std::vector<std::vector<std::vector<worker_id>>>;

/// Places every expert on min(num_replicas, workers) distinct workers as far as their memory goes, first one
/// host for each expert, then further replicas. Hosts stay unless balance asks for a move: the experts of a
/// layer are spread over the workers within one of each other, and so are the totals, where memory allows.
/// Equal problems have equal solutions.
///
/// @param planned  the last placement, kept first; unknown workers are ignored; may be empty
/// @param loaded   where weights are already, kept next, and preferred as the goal of a move; may be empty
expert_placement place_experts(const placement_problem& problem, const expert_placement& planned,
                               const expert_placement& loaded);

} // namespace troupe
