// Moves experts between hosts until layers and totals are even. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "actors/protocol/ids.hpp"
#include "actors/scheduler/hosting_table.hpp"
#include "actors/scheduler/placement_spread.hpp"

namespace troupe {

/// The hosts that have an expert's weights loaded now, ascending. An empty function: no host has any.
using loaded_lookup = std::function<std::span<const worker_id>(expert_id)>;

/// Does the host have the expert loaded?
bool is_loaded(const loaded_lookup& loaded, expert_id expert, worker_id host);

/// Moves experts that are not pinned, as few as these aims need:
/// 1. Each layer lives on spreads[layer].low to .high hosts.
/// 2. Its experts are spread over these within one of each other.
/// 3. Totals differ little: no expert is left whose move would bring the totals nearer to each other by as
///    much as it moves, and, within max_share_moves, no host's whole share of a layer and no further host for
///    a layer (or one less). Where a layer lives on all hosts, the totals are then within one of each other.
/// Full hosts, pinned experts and replicas that have to keep apart can keep any aim from being reached; no
/// host is filled beyond its room, and no move brings two replicas of an expert to one place.
/// @param max_share_moves  moves of experts that do no more than bring the totals nearer by whole shares:
///                         a bound on what one small change can set going
void balance_placement(hosting_table& table, const std::vector<spread_range>& spreads,
                       const loaded_lookup& loaded, std::uint64_t max_share_moves);

} // namespace troupe
