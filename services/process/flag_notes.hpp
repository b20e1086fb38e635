// What a program says at its start of flags that do not mean what they say, and of variables that are none.
#pragma once

#include "services/options/option_parser.hpp"
#include "services/options/role_options.hpp"
#include "services/process/model_source.hpp"
#include "services/process/process_log.hpp"

namespace troupe {

/// One line for the variables that Kubernetes has put there, and one for those that no flag reads, if there
/// are any.
void log_unread_variables(const option_parser& parser, const process_log& log);

/// One line where the value of a flag is beyond what the model can do, so that another one is used.
void log_clamped(const model_options& options, const model_source& source, const process_log& log);

/// One line where there will be fewer expert workers than each expert was to have hosts. For programs that
/// start them.
void log_clamped(const scheduler_options& options, const process_log& log);

} // namespace troupe
