// All events in logs of a cluster's processes, with their levels. docs/operations.md explains each event and
// what to do.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace troupe {

enum class log_level : std::uint8_t { debug, info, warning, error };

const char* to_string(log_level level);

/// @returns false for an unknown name, without changing `level`
bool read_log_level(std::string_view name, log_level& level);

struct log_event {
  std::string_view name;
  log_level level;
};

/// By name.
std::span<const log_event> log_events();

/// The level of an event; info for one that is not listed.
log_level level_of_event(std::string_view name);

} // namespace troupe
