// Moves experts between hosts until layers and totals are even. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "actors/ids.hpp"
#include "actors/scheduler/expert_grouping.hpp"
#include "actors/scheduler/hosting_table.hpp"
#include "actors/scheduler/placement_spread.hpp"

namespace troupe {

/// The hosts that have an expert's weights loaded now, ascending. May be empty: nobody has anything.
using loaded_lookup = std::function<std::span<const worker_id>(expert_id)>;

/// What makes one expert a better choice than another that would balance as well.
struct placement_hints {
  loaded_lookup loaded;
  std::vector<coactivation> together; ///< [layers]; of no experts where nothing is known

  bool is_loaded(expert_id expert, worker_id host) const;
};

/// Moves experts that are not pinned, as few as these aims need:
/// 1. Each layer lives on spreads[layer].low to .high hosts.
/// 2. Its experts are spread over these within one of each other.
/// 3. Totals differ little: no expert is left whose move would bring the totals nearer to each other by as
///    much as it moves, and, within max_share_moves, no host's whole share of a layer and no further host for
///    a layer (or one less). Where a layer lives on all hosts, the totals are then within one of each other.
/// Full hosts and pinned experts can keep any aim from being reached; no host is filled beyond its room.
/// @param max_share_moves  moves of experts that do no more than bring the totals nearer by whole shares:
///                         a bound on what one small change can set going
void balance_placement(hosting_table& table, const std::vector<spread_range>& spreads,
                       const placement_hints& hints, uint64_t max_share_moves);

} // namespace troupe
