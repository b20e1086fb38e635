// Many requests of one run: sent when it is their time, so many at once, on one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <utility> // Asio of Boost 1.74 needs it before its own headers

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "load/prompt_set.hpp"
#include "load/report.hpp"
#include "services/client/server_url.hpp"

namespace troupe::load {

/// How all requests of a run are asked.
struct load_settings {
  server_url server;
  std::string model; ///< asked for; empty: whatever is served
  double temperature = 0.0;
  uint32_t max_concurrency = 1024; ///< in flight; the next one waits
  std::chrono::seconds timeout{600};
  double duration = 0.0;   ///< seconds after which no more is sent; 0: all are
  bool keeps_text = false; ///< in the records
};

/// One run. Request i has seed i, so that the same run asks the same, whatever the timing.
class load_run {
 public:
  /// @param io        outlives the run, and runs on one thread
  /// @param arrivals  [prompts] seconds since the start
  load_run(boost::asio::io_context& io, load_settings settings, std::vector<prompt> prompts,
           std::vector<double> arrivals);

  /// Sends, and ends with the last answer. Once. A request that fails is a record that says why.
  boost::asio::awaitable<void> run();

  /// Nothing more is sent; what is under way goes on.
  void stop();

  /// Of those that were sent, in that order. When `run` has ended.
  const std::vector<request_record>& records() const { return records_; }

  /// When the run began, in seconds of Unix time.
  double start_time() const { return start_time_; }

  /// Seconds from the first request to the last answer.
  double duration() const { return duration_; }

 private:
  using clock = std::chrono::steady_clock;

  bool is_over() const;
  boost::asio::awaitable<void> wait_for_change();
  boost::asio::awaitable<void> request(size_t number);

  boost::asio::io_context& io_;
  load_settings settings_;
  std::vector<prompt> prompts_;
  std::vector<double> arrivals_;
  std::vector<request_record> records_;
  boost::asio::steady_timer changed_; ///< cancelled whenever a request ends
  boost::asio::steady_timer next_;    ///< until the next arrival
  clock::time_point start_;
  double start_time_ = 0.0;
  double duration_ = 0.0;
  uint32_t in_flight_ = 0;
  bool stopped_ = false;
};

} // namespace troupe::load
