// POST /cluster/trace: what it takes, and what it answers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "actors/protocol/trace_messages.hpp"

namespace troupe::http {

inline constexpr std::size_t max_trace_command_bytes = 4096;

/// {"action": "start", "sample": 0.01} or {"action": "stop"}.
/// @throws openai::api_error 400 for anything else
trace_command parse_trace_command(std::string_view body);

/// {"processes": [{"name": "expert-0", "error": "..."}, ...]}; without an error where it does as told.
std::string trace_receipt_page(const trace_receipt& receipt);

} // namespace troupe::http
