// --log-level and --log-format, as the log takes them.
#pragma once

#include "services/options/role_options.hpp"

namespace troupe {

/// Sets what this process logs. Call it behind parse(), before the first line.
void configure_logs(const log_options& options);

} // namespace troupe
