#include "services/options/memory_budget.hpp"

#include <algorithm>
#include <limits>

namespace troupe {

std::uint64_t memory_budget::left() const {
  return limit_ ? bytes_beside(*limit_, program_bytes + taken_) : std::numeric_limits<std::uint64_t>::max();
}

std::string memory_budget::text() const {
  if (!limit_)
    return "there is no memory limit";
  return "the memory limit of the cgroup is " + mebibytes_text(*limit_) + ", of which the program takes "
         + mebibytes_text(program_bytes)
         + (taken_ == 0 ? "" : " and the attention side " + mebibytes_text(taken_));
}

std::string mebibytes_text(std::uint64_t bytes) {
  return std::to_string(bytes >> 20U) + " MiB";
}

std::uint64_t without_rounding(std::uint64_t bytes) {
  return bytes / 17 * 16;
}

std::uint64_t bytes_beside(std::uint64_t bytes, std::uint64_t reserve) {
  return bytes - std::min(bytes, reserve);
}

} // namespace troupe
