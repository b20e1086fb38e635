// Files of API keys.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

/// The API keys of a file: one a line; blank lines and lines that begin with '#' are skipped.
/// @throws std::runtime_error naming the file when it cannot be read, is open to other users or holds no key
std::vector<std::string> read_api_keys(const std::filesystem::path& file);

/// The key that a client sends: the first of `file`, or, when that is empty, what OPENAI_API_KEY holds, as
/// OpenAI's own clients do; empty without either. Never from the command line, which other users can read.
/// @throws as read_api_keys
std::string client_api_key(const std::filesystem::path& file);

} // namespace troupe
