// Sends a span for each request to a collector of OpenTelemetry, beside the requests.
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
#include "services/process/process_log.hpp"

namespace troupe {

/// OTLP over HTTP with JSON, from a thread of its own. Spans that find the queue full, or that the collector
/// does not take within `deadline`, are dropped; an `otlp` line of the log says so at most every ten seconds.
/// Thread-safe.
class otlp_exporter {
 public:
  static constexpr size_t max_waiting = 4096;   ///< spans
  static constexpr size_t max_in_request = 256; ///< likewise
  static constexpr std::chrono::milliseconds interval{500};
  static constexpr std::chrono::seconds deadline{2};

  /// @param endpoint  "http://HOST:PORT", with "/v1/traces" behind it or without
  /// @throws option_error naming --otlp-endpoint
  otlp_exporter(const std::string& endpoint, std::string model, process_log log);
  /// Sends what waits, for a second at most, behind what is being sent. Only the look-up of a name can take
  /// longer.
  ~otlp_exporter();
  otlp_exporter(const otlp_exporter&) = delete;
  otlp_exporter& operator=(const otlp_exporter&) = delete;

  /// Never waits.
  void record(const http::access_record& record);

 private:
  void run();
  std::string send(std::string body, std::chrono::milliseconds patience) const;
  void complain(const std::string& why, uint64_t lost);

  server_url server_;
  std::string path_;
  const std::string model_;
  const process_log log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<otlp_span> waiting_;
  std::mt19937_64 ids_;
  uint64_t dropped_ = 0;
  bool stopping_ = false;
  std::chrono::steady_clock::time_point next_complaint_{}; ///< the thread's
  uint64_t untold_ = 0;                                    ///< likewise
  std::thread thread_;                                     // last: runs with everything above in place
};

} // namespace troupe
