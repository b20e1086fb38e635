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

/// Writes a new file beside `path`, syncs it, and renames it to `path`. Several processes may do so at once:
/// the last one to rename wins, whole. Blocks: not for actors of the pool.
/// @errors throws `std::runtime_error` that names the file
void replace_file(const std::string& path, const std::string& content);

/// Removes what processes have left that died in replace_file, or still are in it: their rename then fails.
void remove_unfinished(const std::string& path);

} // namespace troupe
