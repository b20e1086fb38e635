// Files that are old or new, and never half of each, whatever happens while they are written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// 64-bit FNV-1a: catches damage, not malice.
uint64_t checksum_of(std::string_view content);

/// @returns nothing when there is no such file
/// @errors throws `std::runtime_error` when there is one that cannot be read
std::optional<std::string> read_file(const std::string& path);

/// Writes `path`.new, syncs it, and renames it to `path`. Blocks: not for actors of the pool.
/// @errors throws `std::runtime_error` that names the file
void replace_file(const std::string& path, const std::string& content);

} // namespace troupe
