// The activation history as JSON: what GET /cluster/history answers, and --history reads. The form of the
// page is in services/pages/history_page.hpp.
#pragma once

#include <cstddef>
#include <string>

#include "actors/protocol/history_messages.hpp"

namespace troupe {

/// What a file for --history may have: all windows of a history, some 40 bytes of text for each byte of them.
inline constexpr std::size_t max_history_file_bytes = std::size_t{256} << 20;

/// Numbers come back as they were.
/// @errors throws `std::runtime_error` for a window that cannot be read
std::string history_json(const history_snapshot& history);

/// @errors throws `std::runtime_error` that says what is wrong, with its place
history_snapshot parse_history_json(const std::string& text);

/// @errors throws `std::runtime_error` that names the file: it cannot be read, is too large, or is no history
history_snapshot read_history_file(const std::string& path);

} // namespace troupe
