// Files of API keys.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

/// A key, and what its owner is called in limits, logs and metrics.
struct named_key {
  std::string name; ///< "key-N" for the N-th key of its file, where that gives it no name
  std::string key;
};

/// The API keys of a file: `KEY` or `NAME KEY` on a line; blank lines and lines that begin with '#' are
/// skipped. Several keys may have one name. Names have up to 64 letters, digits and `._-`.
/// @throws std::runtime_error naming file and line when it cannot be read, is open to other users, is
/// malformed or holds no key
std::vector<named_key> read_api_keys(const std::filesystem::path& file);

/// The key that a client sends: the first of `file`, or, when that is empty, what OPENAI_API_KEY holds, as
/// OpenAI's own clients do; empty without either. Never from the command line, which other users can read.
/// @throws as read_api_keys
std::string client_api_key(const std::filesystem::path& file);

} // namespace troupe
