// Writes files atomically: after a fault a file has its old or its new content, never a mixture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// 64-bit FNV-1a: detects damage, not tampering.
std::uint64_t checksum_of(std::string_view content);

/// @returns empty if there is no such file
/// @throws std::runtime_error  it is unreadable
std::optional<std::string> read_file(const std::string& path);

/// Writes a new file beside `path`, syncs it, and renames it to `path`. Of several processes doing so at
/// once, the last one to rename wins. Blocks: not for actors of the pool.
/// @throws std::runtime_error naming the file
void replace_file(const std::string& path, const std::string& content);

/// Removes files of processes that died in replace_file. A process still in it fails at its rename.
void remove_unfinished(const std::string& path);

} // namespace troupe
