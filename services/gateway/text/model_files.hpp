// Reads files of the model folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace troupe::text {

/// The content of a file; empty when it does not exist.
/// @throws text_error naming a file that is unreadable or larger than 256 MiB
std::optional<std::string> read_text_file(const std::filesystem::path& file);

} // namespace troupe::text
