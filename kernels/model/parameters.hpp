// How many parameters a program has.
#pragma once

#include "kernels/model/config.hpp"

#include <cstdint>

namespace troupe::model {

struct parameter_counts {
  std::uint64_t all = 0;
  /// Those that one token meets: of the routed experts only the chosen ones. Embeddings count whole.
  std::uint64_t active = 0;
};

/// Tied embeddings count once. Parts of a checkpoint that the program does not need do not count: layers that
/// predict further tokens, vision.
parameter_counts count_parameters(const model_config& config);

} // namespace troupe::model
