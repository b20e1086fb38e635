// What every process says of itself: its build, and what the operating system gives it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "services/metrics/registry.hpp"

namespace troupe::metrics {

/// What the kernel says of the calling process.
struct process_figures {
  double cpu_seconds = 0;
  double resident_bytes = 0;
  double virtual_bytes = 0;
  double open_fds = 0;
  double max_fds = 0;
  double threads = 0;
  double start_time = 0; ///< seconds since the epoch
};

/// Reads /proc; what cannot be read stays 0.
process_figures read_process_figures();

/// The registry of a process, which shows `build_info` and `process_*`.
/// @param model_name  the label of all series; empty: they have none
/// @param numerics    the numerics class; empty: nothing is computed here
/// @throws std::invalid_argument when the prefix cannot begin a metric name
std::shared_ptr<registry> make_registry(const std::string& prefix, const std::string& model_name,
                                        const std::string& numerics);

} // namespace troupe::metrics
