// A process during its start: answers of its probes, and reaction to stop signals.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "services/log/process_log.hpp"
#include "services/metrics/endpoint.hpp"
#include "services/metrics/registry.hpp"
#include "services/options/role_options.hpp"
#include "services/startup/load_progress.hpp"

namespace troupe {

/// Ends this process with status 0 when it has not stopped within a second after a stop signal: it may be
/// reading a slow disk. Only for a process that no peer knows yet, and whose files bear a `kill -9`
/// (`model::partial_file`).
class stop_while_starting {
 public:
  explicit stop_while_starting(process_log log);
  ~stop_while_starting();
  stop_while_starting(const stop_while_starting&) = delete;
  stop_while_starting& operator=(const stop_while_starting&) = delete;

 private:
  std::jthread thread_;
};

/// Serves /metrics, /health and /ready from the beginning: until `done` the process is alive and not ready.
/// Construct it before opening the model. It may outlive everything except the argument of `done`.
class startup {
 public:
  /// @param prefix, model_name  of metrics
  /// @throws std::runtime_error when the address of --metrics-port cannot be used
  startup(const cluster_options& cluster, const std::string& prefix, const std::string& model_name,
          const process_log& log);
  ~startup();
  startup(const startup&) = delete;
  startup& operator=(const startup&) = delete;

  /// The metrics of this process.
  const std::shared_ptr<metrics::registry>& families() const { return families_; }

  /// The progress of packing or loading weights, also after the start.
  const std::shared_ptr<load_progress>& load() const { return load_; }

  /// HOST:PORT of the metrics; empty without --metrics-port.
  const std::string& endpoint() const { return endpoint_text_; }

  /// The process has started: from now on its pages show `answers`, and stop signals are left to stop_signal.
  void done(metrics::probes answers);

 private:
  struct state;

  std::shared_ptr<metrics::registry> families_;
  std::shared_ptr<load_progress> load_;
  std::shared_ptr<state> state_;
  std::string endpoint_text_;
  std::unique_ptr<metrics::endpoint> pages_; ///< null without --metrics-port
  std::unique_ptr<stop_while_starting> stop_;
};

} // namespace troupe
