#include "services/startup/role_frame.hpp"

#include "services/log/log_options.hpp"
#include "services/options/environment.hpp"

namespace troupe {

namespace {

process_log configured_log(const log_options& logs, const std::string& name) {
  configure_logs(logs);
  return process_log(name);
}

} // namespace

void log_unread_variables(const option_parser& parser, const process_log& log) {
  for (const auto& note : find_unread_variables(parser).notes())
    log.line("environment", note);
}

role_frame::role_frame(const option_parser& parser, const log_options& logs, const trace_options& traces,
                       const std::string& name)
    : log(configured_log(logs, name)), tracing(traces, log) {
  log_unread_variables(parser, log);
}

} // namespace troupe
