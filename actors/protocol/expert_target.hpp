// The hosts that should hold one expert.
#pragma once

#include <vector>

#include "actors/protocol/ids.hpp"

namespace troupe {

struct expert_target {
  expert_id expert;
  std::vector<worker_id> hosts; ///< distinct, ascending
  bool operator==(const expert_target&) const = default;
};

} // namespace troupe
