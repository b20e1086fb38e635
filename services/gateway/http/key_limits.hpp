// Limits of API keys, as an operator configures them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::http {

/// Limits of one key. An unset one is no limit.
struct key_limit {
  std::optional<std::uint64_t> requests_per_minute;
  std::optional<std::uint64_t> tokens_per_minute; ///< of prompts and completions together
  std::optional<std::uint32_t> concurrent_requests;
  std::uint32_t weight = 1; ///< turns in the cluster's queue for each turn of a key of weight 1
  bool priority = true;     ///< its requests may have a `priority` below 0, and so overtake others
};

struct key_limit_table {
  key_limit otherwise; ///< limits of each key that is not named
  std::map<std::string, key_limit> by_name;

  const key_limit& of(const std::string& name) const;
};

/// Reads the JSON object that docs/operations.md describes.
/// @param names  of all keys
/// @throws std::runtime_error naming the file and the member that is wrong, or a name that no key has
key_limit_table read_key_limits(const std::filesystem::path& file, const std::vector<std::string>& names);

/// As read_key_limits, from the text of the file.
/// @param source  begins the text of errors
key_limit_table parse_key_limits(const std::string& text, const std::string& source,
                                 const std::vector<std::string>& names);

} // namespace troupe::http
