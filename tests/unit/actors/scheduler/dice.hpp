// Numbers that look random and are the same for a seed everywhere.
#pragma once

#include <cstdint>
#include <random>

namespace troupe {

class dice {
 public:
  explicit dice(uint32_t seed) : random_(seed) {}

  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

 private:
  std::mt19937 random_;
};

} // namespace troupe
