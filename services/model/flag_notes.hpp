// Log lines about flags whose values cannot be used as they are.
#pragma once

#include "services/log/process_log.hpp"
#include "services/model/model_source.hpp"
#include "services/options/role_options.hpp"

namespace troupe {

/// One line if --max-model-len exceeds the model's context, which is then used instead.
void log_clamped(const model_options& options, const model_source& source, const process_log& log);

/// One line if --replicas exceeds the number of expert workers. For programs that start all of them.
void log_clamped(const scheduler_options& options, const process_log& log);

} // namespace troupe
