// Applies --log-level and --log-format.
#pragma once

#include "services/options/role_options.hpp"

namespace troupe {

/// Call it after parse() and before the first line.
void configure_logs(const log_options& options);

} // namespace troupe
