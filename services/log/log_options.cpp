#include "services/log/log_options.hpp"

#include "services/log/process_log.hpp"

namespace troupe {

void configure_logs(const log_options& options) {
  log_level level = log_level::info;
  read_log_level(options.level, level); // the parser takes no other names
  configure_logs(level, options.format == "json" ? log_format::json : log_format::text);
}

} // namespace troupe
