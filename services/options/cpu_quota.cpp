#include "services/options/cpu_quota.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace troupe {

namespace {

namespace fs = std::filesystem;

/// A mounted hierarchy of cgroups that may limit processor time.
struct hierarchy {
  bool is_v2 = false;
  fs::path mount_root;  ///< the cgroup that is mounted
  fs::path mount_point; ///< where
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

bool contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

/// From /proc/self/mountinfo: "36 35 98:0 /root /point options... - type source super,options" (proc(5)).
std::vector<hierarchy> mounted_hierarchies(const fs::path& root) {
  std::vector<hierarchy> found;
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    auto words = split(line, ' ');
    auto dash = std::find(words.begin(), words.end(), "-");
    if (dash - words.begin() < 6 || words.end() - dash < 4) {
      continue;
    }
    bool is_v2 = dash[1] == "cgroup2";
    if (is_v2 || (dash[1] == "cgroup" && contains(split(dash[3], ','), "cpu"))) {
      found.push_back({is_v2, words[3], words[4]});
    }
  }
  return found;
}

/// From /proc/self/cgroup: "0::/path" in v2, "4:cpu,cpuacct:/path" in v1. Empty when this process is in none.
fs::path cgroup_of_this_process(const fs::path& root, bool is_v2) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    auto first = line.find(':');
    auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    std::string controllers = line.substr(first + 1, second - first - 1);
    if (is_v2 ? controllers.empty() : contains(split(controllers, ','), "cpu")) {
      return line.substr(second + 1);
    }
  }
  return {};
}

constexpr double no_limit = std::numeric_limits<double>::infinity();

double quota_over_period(double quota, double period) {
  return quota > 0 && period > 0 ? quota / period : no_limit;
}

/// The limit that one cgroup sets, in processors.
double limit_of(const fs::path& cgroup, bool is_v2) {
  double quota = 0;
  double period = 0;
  if (is_v2) {
    std::ifstream(cgroup / "cpu.max") >> quota >> period; // "max 100000" is no number
  } else {
    std::ifstream(cgroup / "cpu.cfs_quota_us") >> quota; // -1: none
    std::ifstream(cgroup / "cpu.cfs_period_us") >> period;
  }
  return quota_over_period(quota, period);
}

double least_limit(const fs::path& root, const hierarchy& mounted) {
  fs::path path = cgroup_of_this_process(root, mounted.is_v2);
  if (path.empty()) {
    return no_limit;
  }
  // Below the cgroup that is mounted. A container that is told its path on the host, but shown its own cgroup
  // alone, finds that at the mount point.
  fs::path below = path.lexically_relative(mounted.mount_root);
  if (below.empty() || *below.begin() == "..") {
    below = ".";
  }
  fs::path here = root / mounted.mount_point.relative_path();
  double least = limit_of(here, mounted.is_v2);
  for (const auto& name : below) {
    here /= name;
    least = std::min(least, limit_of(here, mounted.is_v2));
  }
  return least;
}

} // namespace

std::optional<double> find_cpu_quota(const fs::path& root) {
  double least = no_limit;
  for (const auto& mounted : mounted_hierarchies(root)) {
    least = std::min(least, least_limit(root, mounted));
  }
  return std::isinf(least) ? std::nullopt : std::optional<double>(least);
}

std::optional<uint32_t> processors_within(std::optional<double> quota) {
  if (!quota) {
    return std::nullopt;
  }
  constexpr double most = 1U << 20;
  return static_cast<uint32_t>(std::clamp(std::ceil(*quota), 1.0, most));
}

} // namespace troupe
