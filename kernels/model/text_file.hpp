// Reads a text file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace troupe::model {

/// @returns the whole file
/// @throws model_error  it cannot be read, or has more than `max_bytes`
std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes);

} // namespace troupe::model
