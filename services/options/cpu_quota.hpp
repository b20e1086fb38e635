// The CPU quota of a container or service.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace troupe {

/// The CPU quota of this process in processors, such as 1.5: the smallest of its cgroup and their ancestors,
/// in cgroup v2 (cpu.max) and v1 (cpu.cfs_quota_us). Unreadable files set no limit.
/// @param root  the folder with proc and sys
/// @returns nothing where there is no limit
std::optional<double> find_cpu_quota(const std::filesystem::path& root = "/");

/// The number of threads that a quota allows: rounded up, at least one.
std::optional<std::uint32_t> processors_within(std::optional<double> quota);

} // namespace troupe
