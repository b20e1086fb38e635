// The memory limit of a container or service.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace troupe {

/// The memory limit of this process in bytes: the smallest of its cgroup and the cgroup's ancestors, in
/// cgroup v2 (memory.max) and v1 (memory.limit_in_bytes). The system kills a process that exceeds it.
/// Unreadable files and values above the machine's memory set no limit.
/// @param root  the folder with proc and sys
/// @returns nothing where there is no limit
std::optional<std::uint64_t> find_memory_limit(const std::filesystem::path& root = "/");

} // namespace troupe
