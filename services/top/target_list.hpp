// The processes of a cluster, as a file for Prometheus' file_sd_configs names them.
#pragma once

#include <string>
#include <vector>

namespace troupe::top {

struct target {
  std::string role;    ///< "scheduler", "expert", …; empty where the file does not say
  std::string process; ///< "expert-0"; its address where the file does not say
  std::string url;     ///< "http://127.0.0.1:9101"
};

/// @param text  JSON as `troupe up` writes it into prometheus-targets.json
/// @throws std::runtime_error where it is something else
std::vector<target> parse_targets(const std::string& text);

/// @throws std::runtime_error that names the file
std::vector<target> read_targets(const std::string& file);

} // namespace troupe::top
