// Files of API keys.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

/// A key, and its owner's name in limits, logs and metrics.
struct named_key {
  std::string name; ///< "key-N" if the file has no name for its N-th key
  std::string key;
};

/// The API keys of a file: `KEY` or `NAME KEY` on a line; blank lines and lines that begin with '#' are
/// skipped. Several keys may have one name. Names have up to 64 letters, digits and `._-`.
/// @param unnamed  prefix of the names of keys without a name
/// @throws std::runtime_error naming file and line when the file cannot be read, is open to other users, is
/// malformed or has no key
std::vector<named_key> read_api_keys(const std::filesystem::path& file, const std::string& unnamed = "key");

/// The key that a client sends: the first of `file`, or, if `file` is empty, the value of OPENAI_API_KEY, as
/// OpenAI's own clients do; empty without both. Not from the command line, which other users can read.
/// @throws as read_api_keys
std::string client_api_key(const std::filesystem::path& file);

} // namespace troupe
