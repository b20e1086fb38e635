// Numbers that look random and are the same for a seed everywhere.
#pragma once

#include <chrono>
#include <cstdint>

namespace troupe::simulation {

/// SplitMix64.
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    auto z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

  /// @pre bound > 0
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(next() % bound); }

  bool one_in(std::uint32_t bound) { return below(bound) == 0; }

  /// From 0 to `most`, both included.
  std::chrono::nanoseconds up_to(std::chrono::nanoseconds most) {
    return std::chrono::nanoseconds{
        static_cast<std::int64_t>(next() % (static_cast<std::uint64_t>(most.count()) + 1))};
  }

  std::chrono::nanoseconds between(std::chrono::nanoseconds least, std::chrono::nanoseconds most) {
    return least + up_to(most - least);
  }

 private:
  std::uint64_t state_;
};

} // namespace troupe::simulation
