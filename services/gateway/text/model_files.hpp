#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace troupe::text {

/// All of a file of the model folder; nothing when it does not exist.
/// @throws text_error naming a file that cannot be read or has over 256 MiB.
std::optional<std::string> read_text_file(const std::filesystem::path& file);

} // namespace troupe::text
