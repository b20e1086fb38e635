// What API keys may use, as an operator writes it down.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::http {

/// Of one key. What is not set is not limited.
struct key_limit {
  std::optional<uint64_t> requests_per_minute;
  std::optional<uint64_t> tokens_per_minute; ///< of prompts and completions together
  std::optional<uint32_t> concurrent_requests;
  uint32_t weight = 1;  ///< turns in the cluster's queue for each one of a key of weight 1
  bool priority = true; ///< its requests may go before those of other keys (a `priority` below 0)
};

struct key_limit_table {
  key_limit otherwise; ///< of each key that is not named
  std::map<std::string, key_limit> by_name;

  const key_limit& of(const std::string& name) const;
};

/// Reads the JSON object that docs/operations.md describes.
/// @param names  of the keys that there are
/// @throws std::runtime_error naming the file and the member that is wrong, or a name that no key has
key_limit_table read_key_limits(const std::filesystem::path& file, const std::vector<std::string>& names);

/// Likewise from its text.
/// @param source  what errors begin with
key_limit_table parse_key_limits(const std::string& text, const std::string& source,
                                 const std::vector<std::string>& names);

} // namespace troupe::http
