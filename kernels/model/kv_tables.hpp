// Which block table of a sequence each layer uses.
#pragma once

#include "kernels/model/config.hpp"

#include <cstddef>
#include <vector>

namespace troupe::model {

/// How far back layers see. At most one of the two is not 0.
struct kv_reach {
  std::size_t window = 0; ///< tokens, a row's own included; 0: all
  std::size_t chunk = 0;  ///< a row sees only its own chunk of so many tokens; 0: all

  friend bool operator==(const kv_reach&, const kv_reach&) = default;
};

/// Layers that see only a window share no table with the others, so that the blocks that no window sees any
/// more can be used again. All tables draw from the same blocks: a block has a place for one layer of each
/// table.
struct kv_tables {
  std::vector<kv_reach> reaches{{}};   ///< of each table
  std::vector<std::size_t> table_of{}; ///< [layers]
  std::vector<std::size_t> place_of{}; ///< [layers]: the layer's place in blocks of its table
};

/// One table for all layers.
kv_tables single_kv_table(const model_config& config);

/// Tables by reach, each of as many layers as the reach with the fewest has. One table if that would take too
/// many.
kv_tables kv_tables_by_reach(const model_config& config);

} // namespace troupe::model
