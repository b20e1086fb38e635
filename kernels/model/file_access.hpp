// Reads and writes of whole ranges of a file, over interrupted and short system calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace troupe::model {

/// @returns whether all of `into` was read; `errno` then says why not, or the file ended
bool read_whole(int fd, std::uint64_t offset, std::span<std::byte> into) noexcept;

/// @returns whether all of `bytes` was written; `errno` then says why not
bool write_whole(int fd, std::uint64_t offset, std::span<const std::byte> bytes) noexcept;

/// The folder that `file` is in, or is to be in.
std::filesystem::path folder_of(const std::filesystem::path& file);

/// Makes the names in the folder of `file` survive a crash. Where a folder cannot be synced nothing happens.
void sync_folder_of(const std::filesystem::path& file) noexcept;

} // namespace troupe::model
