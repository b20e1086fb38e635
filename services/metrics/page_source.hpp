// What the endpoint of metrics and probes shows.
#pragma once

#include <string>
#include <utility> // before Asio: its coroutine headers of Boost 1.74 need std::exchange
#include <vector>

#include <boost/asio/awaitable.hpp>

namespace troupe::metrics {

struct page {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

class page_source {
 public:
  virtual ~page_source() = default;

  /// The page of a GET or HEAD. Runs on the endpoint's thread and must not block it.
  /// @param path  without the query
  virtual boost::asio::awaitable<page> answer(std::string path) = 0;
};

} // namespace troupe::metrics
