#include "services/options/cgroup_limits.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace troupe {

namespace {

namespace fs = std::filesystem;

/// A mounted hierarchy of cgroups that has the controller.
struct hierarchy {
  bool is_v2 = false;
  fs::path mount_root;  ///< the cgroup that is mounted
  fs::path mount_point; ///< where
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);)
    parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

/// From /proc/self/mountinfo: "36 35 98:0 /root /point options... - type source super,options" (proc(5)).
std::vector<hierarchy> mounted_hierarchies(const fs::path& root, const std::string& controller) {
  std::vector<hierarchy> found;
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    auto words = split(line, ' ');
    auto dash = std::find(words.begin(), words.end(), "-");
    if (dash - words.begin() < 6 || words.end() - dash < 4)
      continue;
    bool is_v2 = dash[1] == "cgroup2";
    if (is_v2 || (dash[1] == "cgroup" && contains(split(dash[3], ','), controller)))
      found.push_back({is_v2, words[3], words[4]});
  }
  return found;
}

/// From /proc/self/cgroup: "0::/path" in v2, "4:cpu,cpuacct:/path" in v1. Empty when this process is in none.
fs::path cgroup_of_this_process(const fs::path& root, bool is_v2, const std::string& controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    auto first = line.find(':');
    auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    if (is_v2 ? controllers.empty() : contains(split(controllers, ','), controller))
      return line.substr(second + 1);
  }
  return {};
}

} // namespace

double least_cgroup_limit(const fs::path& root, const std::string& controller,
                          const cgroup_limit_reader& limit_of) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& mounted : mounted_hierarchies(root, controller)) {
    fs::path path = cgroup_of_this_process(root, mounted.is_v2, controller);
    if (path.empty())
      continue;
    // Below the cgroup that is mounted. A container that is told its path on the host, but shown its own
    // cgroup alone, finds that at the mount point.
    fs::path below = path.lexically_relative(mounted.mount_root);
    if (below.empty() || *below.begin() == "..")
      below = ".";
    fs::path here = root / mounted.mount_point.relative_path();
    least = std::min(least, limit_of(here, mounted.is_v2));
    for (const auto& name : below) {
      here /= name;
      least = std::min(least, limit_of(here, mounted.is_v2));
    }
  }
  return least;
}

} // namespace troupe
