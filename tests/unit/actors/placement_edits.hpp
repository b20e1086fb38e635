// Placements for tests: unshared layers, and changes to them.
#pragma once

#include <memory>
#include <utility>

#include "actors/protocol/cluster_messages.hpp"

namespace troupe {

inline layer_placement_ptr shared_layer(layer_placement layer) {
  return std::make_shared<const layer_placement>(std::move(layer));
}

/// Replaces the layer by a copy that may be changed; other holders keep the old one.
inline layer_placement& edit(layer_placement_ptr& layer) {
  auto copy = std::make_shared<layer_placement>(*layer);
  layer = copy;
  return *copy;
}

} // namespace troupe
