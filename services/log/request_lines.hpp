// Log lines about events of requests.
#pragma once

#include "actors/protocol/request_context.hpp"
#include "services/log/process_log.hpp"

namespace troupe {

/// Writes an event with its request's id and, where there is one, its traceparent.
void log_request(const process_log& log, const request_event& event);

} // namespace troupe
