#include "services/log/request_lines.hpp"

namespace troupe {

void log_request(const process_log& log, const request_event& event) {
  if (!is_logged(level_of_event(event.name)))
    return;
  const auto& request = event.request;
  if (request.traceparent.empty())
    log.line(event.name, event.text, {{"request_id", request.id}});
  else
    log.line(event.name, event.text, {{"request_id", request.id}, {"traceparent", request.traceparent}});
}

} // namespace troupe
