// Pauses between attempts to reach a scheduler: growing, and random. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "actors/protocol/defaults.hpp"

namespace troupe {

/// Draws each pause from [p/2, p], where p doubles from `defaults::reconnect_min` to
/// `defaults::reconnect_max`. So a thousand workers that lose their scheduler together return spread over
/// half a pause. Equal seeds give equal pauses.
class reconnect_pauses {
 public:
  /// @param seed  different for each worker, such as its id
  explicit reconnect_pauses(std::uint64_t seed) : state_(seed) {}

  std::chrono::milliseconds next() {
    const auto longest = static_cast<std::uint64_t>(bound_.count());
    bound_ = std::min<std::chrono::milliseconds>(2 * bound_, defaults::reconnect_max);
    return std::chrono::milliseconds{longest - draw() % (longest / 2 + 1)};
  }

  /// The scheduler was reached: the next pause is short again.
  void reset() { bound_ = defaults::reconnect_min; }

 private:
  /// SplitMix64 (Steele, Lea and Flood 2014, figure 16).
  std::uint64_t draw() {
    auto z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

  std::uint64_t state_;
  std::chrono::milliseconds bound_ = defaults::reconnect_min;
};

} // namespace troupe
