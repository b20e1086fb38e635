// How much processor time a container or service may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace troupe {

/// The CPU quota of this process's cgroup in processors, 1.5 for instance: the least of the cgroup and those
/// above it, of cgroup v2 (cpu.max) and v1 (cpu.cfs_quota_us). What cannot be read sets no limit.
/// @param root  where /proc and /sys are looked for
/// @returns nothing where there is no limit
std::optional<double> find_cpu_quota(const std::filesystem::path& root = "/");

/// How many threads a quota pays for: rounded up, at least one.
std::optional<uint32_t> processors_within(std::optional<double> quota);

} // namespace troupe
