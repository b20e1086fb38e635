// Metrics of every process: its build, and its use of the operating system.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "services/metrics/registry.hpp"

namespace troupe::metrics {

/// The kernel's figures of the calling process.
struct process_figures {
  double cpu_seconds = 0;
  double resident_bytes = 0;
  double virtual_bytes = 0;
  double open_fds = 0;
  double max_fds = 0;
  double threads = 0;
  double start_time = 0; ///< seconds since the epoch
};

/// Reads /proc; unreadable figures stay 0.
process_figures read_process_figures();

/// The registry of a process, which shows `process_*`.
/// @param model_name  the label of all series; empty: they have none
/// @throws std::invalid_argument  the prefix cannot begin a metric name
std::shared_ptr<registry> make_registry(const std::string& prefix, const std::string& model_name);

/// Bytes of weights being packed or loaded, or of the last time.
struct load_bytes {
  std::uint64_t bytes = 0;
  std::uint64_t total = 0; ///< 0: unknown
};

/// Makes `families` show them.
void show_load(registry& families, std::function<load_bytes()> load);

/// Makes `families` show `build_info`.
/// @param numerics  the numerics class; empty: this process computes nothing
void show_build(registry& families, const std::string& numerics);

} // namespace troupe::metrics
