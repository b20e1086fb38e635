// The interface of pages that the endpoint for metrics and probes serves.
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
  /// @param query  the text after the path's question mark
  virtual boost::asio::awaitable<page> answer(std::string path, std::string query) = 0;
};

} // namespace troupe::metrics
