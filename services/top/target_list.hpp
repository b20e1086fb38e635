// The processes of a cluster, as a file for Prometheus' file_sd_configs names them.
#pragma once

#include <string>
#include <vector>

namespace troupe::top {

struct target {
  std::string role;    ///< "scheduler", "expert", …; empty where the file does not say
  std::string process; ///< "expert-0"; its address where the file does not say
  std::string url;     ///< "http://127.0.0.1:9101"
  std::string source;  ///< "FILE:LINE", where its address stands
};

/// @param text  JSON as `troupe up` writes it into prometheus-targets.json
/// @param file  its name, for messages
/// @throws std::runtime_error that names the file, and the line where it stops being JSON
std::vector<target> parse_targets(const std::string& text, const std::string& file);

/// @throws std::runtime_error that names the file
std::vector<target> read_targets(const std::string& file);

} // namespace troupe::top
