#include "services/options/memory_limit.hpp"

#include <fstream>
#include <limits>
#include <string>

#include "services/options/cgroup_limits.hpp"

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr double no_memory_limit = std::numeric_limits<double>::infinity();

double memory_limit_of(const fs::path& cgroup, bool is_v2) {
  double limit = 0;
  std::ifstream(cgroup / (is_v2 ? "memory.max" : "memory.limit_in_bytes")) >> limit; // "max" is no number
  return limit > 0 ? limit : no_memory_limit;
}

/// In bytes; infinity where it is not told.
double memory_of_machine(const fs::path& root) {
  std::ifstream in(root / "proc/meminfo");
  std::string name;
  double kibibytes = 0;
  if (in >> name >> kibibytes && name == "MemTotal:")
    return kibibytes * 1024;
  return no_memory_limit;
}

} // namespace

std::optional<std::uint64_t> find_memory_limit(const fs::path& root) {
  const double least = least_cgroup_limit(root, "memory", memory_limit_of);
  // Version 1 writes 2^63 less a page where there is none.
  constexpr double sentinel = 1ULL << 62U;
  if (least >= sentinel || least >= memory_of_machine(root))
    return std::nullopt;
  return static_cast<std::uint64_t>(least);
}

} // namespace troupe
