// Every event that a process of a cluster logs, and how much it matters. docs/operations.md says of each what
// it means and what to do.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace troupe {

enum class log_level : uint8_t { debug, info, warning, error };

const char* to_string(log_level level);

/// @returns false for another name, and leaves `level` alone
bool read_log_level(std::string_view name, log_level& level);

struct log_event {
  std::string_view name;
  log_level level;
};

/// By name.
std::span<const log_event> log_events();

/// Of an event that is not listed: info.
log_level level_of_event(std::string_view name);

} // namespace troupe
