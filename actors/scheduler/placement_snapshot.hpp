// Where all experts live, as one immutable value that many may hold.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/membership.hpp"

namespace troupe {

using layer_placement_ptr = std::shared_ptr<const layer_placement>;

/// A published placement. A layer that has not changed is the same object in the next snapshot, so copying a
/// snapshot and comparing two costs one pointer a layer.
struct placement_snapshot {
  uint64_t term = 0;
  uint64_t epoch = 0;                      ///< 0: nothing is published yet
  std::vector<layer_placement_ptr> layers; ///< [layers]; none of them null
};

} // namespace troupe
