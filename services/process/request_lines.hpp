// Events of requests as lines of the log.
#pragma once

#include "actors/request_context.hpp"
#include "services/process/process_log.hpp"

namespace troupe {

/// Writes an event with its request's id and, where there is one, its traceparent.
void log_request(const process_log& log, const request_event& event);

} // namespace troupe
