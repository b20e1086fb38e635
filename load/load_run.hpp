// Sends the requests of one load run at their times, with bounded concurrency, on one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <utility> // needed before the headers of Asio in Boost 1.74

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "load/prompt_set.hpp"
#include "load/report.hpp"
#include "services/client/server_url.hpp"

namespace troupe::load {

/// Settings that all requests of a run share.
struct load_settings {
  server_url server;
  std::string model; ///< requested; empty: the served one
  double temperature = 0.0;
  std::uint32_t max_concurrency = 1024; ///< in flight; the next one waits
  std::chrono::seconds timeout{600};
  double duration = 0.0;   ///< seconds of sending; 0: until all are sent
  bool keeps_text = false; ///< in the records
};

/// One run. Request i has seed i, so the requests do not depend on timing.
class load_run {
 public:
  /// @param io        outlives the run, and runs on one thread
  /// @param arrivals  [prompts] seconds since the start
  load_run(boost::asio::io_context& io, load_settings settings, std::vector<prompt> prompts,
           std::vector<double> arrivals);

  /// Sends, and ends with the last answer. Call once. A failed request becomes a record with the error.
  boost::asio::awaitable<void> run();

  /// Stops sending; requests under way continue.
  void stop();

  /// Records of the sent requests, in that order. Valid when `run` has ended.
  const std::vector<request_record>& records() const { return records_; }

  /// Start of the run, in seconds of Unix time.
  double start_time() const { return start_time_; }

  /// Seconds from the first request to the last answer.
  double duration() const { return duration_; }

 private:
  using clock = std::chrono::steady_clock;

  bool is_over() const;
  boost::asio::awaitable<void> wait_for_change();
  boost::asio::awaitable<void> request(std::size_t number);

  boost::asio::io_context& io_;
  load_settings settings_;
  std::vector<prompt> prompts_;
  std::vector<double> arrivals_;
  std::vector<request_record> records_;
  boost::asio::steady_timer changed_; ///< cancelled at each end of a request
  boost::asio::steady_timer next_;    ///< until the next arrival
  clock::time_point start_;
  double start_time_ = 0.0;
  double duration_ = 0.0;
  std::uint32_t in_flight_ = 0;
  bool stopped_ = false;
};

} // namespace troupe::load
