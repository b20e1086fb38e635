#include "services/options/cpu_quota.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "services/options/cgroup_limits.hpp"

namespace troupe {

namespace {

namespace fs = std::filesystem;

/// In processors.
double cpu_quota_of(const fs::path& cgroup, bool is_v2) {
  double quota = 0;
  double period = 0;
  if (is_v2) {
    std::ifstream(cgroup / "cpu.max") >> quota >> period; // "max 100000" is no number
  } else {
    std::ifstream(cgroup / "cpu.cfs_quota_us") >> quota; // -1: none
    std::ifstream(cgroup / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

} // namespace

std::optional<double> find_cpu_quota(const fs::path& root) {
  const double least = least_cgroup_limit(root, "cpu", cpu_quota_of);
  return std::isinf(least) ? std::nullopt : std::optional<double>(least);
}

std::optional<std::uint32_t> processors_within(std::optional<double> quota) {
  if (!quota)
    return std::nullopt;
  constexpr double most = 1U << 20;
  return static_cast<std::uint32_t>(std::clamp(std::ceil(*quota), 1.0, most));
}

} // namespace troupe
