// Limits of the cgroups of this process.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace troupe {

/// Reads the limit that one cgroup sets; infinity where it sets none.
using cgroup_limit_reader = std::function<double(const std::filesystem::path& cgroup, bool is_v2)>;

/// The smallest limit of this process's cgroup and its ancestors, in cgroup v2 and in the v1 hierarchy of
/// `controller`. Unreadable files set no limit.
/// @param root  the folder with proc and sys
/// @returns infinity where there is no limit
double least_cgroup_limit(const std::filesystem::path& root, const std::string& controller,
                          const cgroup_limit_reader& limit_of);

} // namespace troupe
