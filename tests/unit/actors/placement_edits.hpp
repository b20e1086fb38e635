// Placements of tests: layers that nobody else holds, and changes to them.
#pragma once

#include <memory>
#include <utility>

#include "actors/cluster/cluster_messages.hpp"

namespace troupe {

inline layer_placement_ptr shared_layer(layer_placement layer) {
  return std::make_shared<const layer_placement>(std::move(layer));
}

/// A copy of the layer in its place, to be changed; whoever else holds the old one keeps it.
inline layer_placement& edit(layer_placement_ptr& layer) {
  auto copy = std::make_shared<layer_placement>(*layer);
  layer = copy;
  return *copy;
}

} // namespace troupe
