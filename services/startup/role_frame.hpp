// What every server has from its first moment: its log, its signals and its trace.
#pragma once

#include <string>

#include "services/log/process_log.hpp"
#include "services/options/option_parser.hpp"
#include "services/options/role_options.hpp"
#include "services/startup/reload_signal.hpp"
#include "services/startup/stop_signal.hpp"
#include "services/timeline/trace_writer.hpp"

namespace troupe {

/// One line for the environment variables that Kubernetes has set, and one for those that no flag reads, if
/// there are any.
void log_unread_variables(const option_parser& parser, const process_log& log);

/// Construct it after parsing and before any thread starts.
struct role_frame {
  /// @param parser  has parsed the flags; variables of the environment that it does not read are logged
  /// @param name    of the process, in each line of its log
  /// @throws option_error when the folder of --trace cannot be used
  role_frame(const option_parser& parser, const log_options& logs, const trace_options& traces,
             const std::string& name);

  stop_signal stop;
  process_log log;
  reload_signal reload{log};
  trace_writer tracing;
};

} // namespace troupe
