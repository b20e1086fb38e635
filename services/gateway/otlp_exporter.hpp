// Sends a span for each request to an OpenTelemetry collector, in the background.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "services/client/server_url.hpp"
#include "services/gateway/http/access_record.hpp"
#include "services/gateway/otlp_spans.hpp"
#include "services/log/process_log.hpp"

namespace troupe {

/// Uses OTLP over HTTP with JSON, from a thread of its own. A span is dropped if the queue is full or if the
/// collector does not take it within `deadline`. An `otlp` log line reports drops, at most every ten seconds.
/// Thread-safe.
class otlp_exporter {
 public:
  static constexpr std::size_t max_waiting = 4096;   ///< spans
  static constexpr std::size_t max_in_request = 256; ///< spans in one export request
  static constexpr std::chrono::milliseconds interval{500};
  static constexpr std::chrono::seconds deadline{2};

  /// @param endpoint  "http://HOST:PORT", with "/v1/traces" behind it or without
  /// @throws option_error naming --otlp-endpoint
  otlp_exporter(const std::string& endpoint, std::string model, process_log log);
  /// Sends the queued spans after those being sent, for a second at most. Only a name look-up can take
  /// longer.
  ~otlp_exporter();
  otlp_exporter(const otlp_exporter&) = delete;
  otlp_exporter& operator=(const otlp_exporter&) = delete;

  /// Never waits.
  void record(const http::access_record& record);

 private:
  void run();
  std::string send(std::string body, std::chrono::milliseconds patience) const;
  void complain(const std::string& why, std::uint64_t lost);

  server_url server_;
  std::string path_;
  const std::string model_;
  const process_log log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<otlp_span> waiting_;
  std::mt19937_64 ids_;
  std::uint64_t dropped_ = 0;
  bool stopping_ = false;
  std::chrono::steady_clock::time_point next_complaint_{}; ///< used by the thread alone
  std::uint64_t untold_ = 0;                               ///< dropped since the last log line
  std::thread thread_;                                     // last: runs with everything above in place
};

} // namespace troupe
