// Asks a gateway for what `troupe top` shows.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <utility> // Asio of Boost 1.74 needs it before its own headers

#include <boost/asio/awaitable.hpp>

#include "services/client/server_url.hpp"
#include "services/top/overview.hpp"

namespace troupe::top {

class sampler {
 public:
  /// A process that is asked for its metrics.
  struct process {
    std::string role;
    std::string name;
    server_url server;
    std::string source; ///< "FILE:LINE", where its address stands
  };

  /// @param url  of the server, for messages
  sampler(server_url server, std::string url, std::vector<process> processes)
      : server_(std::move(server)), url_(std::move(url)), processes_(std::move(processes)) {}

  /// One question after another; each has a deadline (page_deadline). The placement and the history may be
  /// missing: `not_read` of the sample says which, and why.
  /// @throws std::runtime_error that names the URL when the gateway's metrics or its page of the cluster
  /// cannot be read: there is no answer, a refusal, or something else
  boost::asio::awaitable<sample> take();

 private:
  boost::asio::awaitable<std::string> get(std::string path);
  void forget_rows_of_others(const sample& now);
  boost::asio::awaitable<void> read_placement(sample& result);
  boost::asio::awaitable<void> read_history(sample& result);
  boost::asio::awaitable<void> ask_processes(sample& result);

  const server_url server_;
  const std::string url_;
  const std::vector<process> processes_;
  std::optional<std::uint64_t> term_; ///< of the scheduler that answered last
  std::optional<double> started_;     ///< the gateway that answered last, since the epoch
  expert_rows recent_rows_;
  std::string history_error_; ///< why the last look at the history failed; empty: it did not
  std::chrono::steady_clock::time_point rows_due_{}; ///< the page is large, and changes each few seconds
};

} // namespace troupe::top
