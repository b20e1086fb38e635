// How many expert batches may be hedged.
#pragma once

#include <algorithm>
#include <cstdint>

#include "actors/defaults.hpp"

namespace troupe {

/// A token bucket: each batch that is sent adds a share of a hedge, and what is not used is kept for one
/// window. One host that is slow is hedged at once; where all of them are overloaded, hedges add no more than
/// their share to the load.
class hedge_budget {
 public:
  /// A batch was sent, be it a hedge.
  void earn() { parts_ = std::min(parts_ + 1, most); }

  /// Whether a batch may be hedged now.
  bool is_left() const { return parts_ >= defaults::batches_per_hedge; }

  /// A batch was hedged by so many copies: its rows may go to several hosts. More than there is left is paid
  /// back before the next one.
  void spend(uint64_t copies) { parts_ -= defaults::batches_per_hedge * static_cast<int64_t>(copies); }

 private:
  static constexpr int64_t most = defaults::hedge_window;

  int64_t parts_ = most; // a hedge costs batches_per_hedge of these
};

} // namespace troupe
