// Pseudo-random numbers that are equal for equal seeds on every machine.
#pragma once

#include <cstdint>
#include <random>

namespace troupe {

class dice {
 public:
  explicit dice(std::uint32_t seed) : random_(seed) {}

  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

 private:
  std::mt19937 random_;
};

} // namespace troupe
