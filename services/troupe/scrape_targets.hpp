// The metrics addresses of a local cluster, for Prometheus.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>

namespace troupe {

/// The line that a process writes when it is ready: its endpoint, and HOST:PORT of its metrics if it has
/// them.
struct ready_line {
  explicit ready_line(const std::string& line)
      : endpoint(line.substr(0, line.find(' '))),
        metrics(endpoint.size() == line.size() ? std::string{} : line.substr(endpoint.size() + 1)) {}

  /// For the log.
  std::string text() const {
    return metrics.empty() ? endpoint : endpoint + ", metrics at http://" + metrics + "/metrics";
  }

  std::string endpoint;
  std::string metrics;
};

/// A file for `file_sd_configs`: one target per process, with the labels `role` and `process`.
class scrape_targets {
 public:
  explicit scrape_targets(std::filesystem::path file) : file_(std::move(file)) {}

  const std::filesystem::path& file() const { return file_; }

  /// @param address  HOST:PORT
  /// @param scheme   "https" if /metrics uses TLS
  void add(const std::string& role, const std::string& process, const std::string& address,
           const std::string& scheme = "http");

  /// Replaces the file atomically.
  /// @throws std::runtime_error that names the file
  void write() const;

 private:
  struct target {
    std::string role;
    std::string address;
    std::string scheme;
  };

  std::filesystem::path file_;
  std::map<std::string, target> targets_; ///< by process
};

} // namespace troupe
