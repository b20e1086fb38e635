#include "services/gateway/http/bare_answer.hpp"

#include <algorithm>

#include <boost/beast/http/status.hpp>

#include "services/gateway/http/request_id.hpp"
#include "services/metrics/http_date.hpp"

namespace troupe::http {

std::string bare_answer(const api& shared, const response& answer) {
  const auto phrase =
      boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(answer.status));
  std::string bytes = "HTTP/1.1 " + std::to_string(answer.status) + " "
                      + std::string(phrase.data(), phrase.size()) + "\r\nconnection: close\r\n";
  for (const auto& [name, value] : answer.headers)
    bytes += name + ": " + value + "\r\n";
  // Its origin has not been read: only where all may come can a page be let to read this.
  const auto& origins = shared.config.allowed_origins;
  if (std::find(origins.begin(), origins.end(), "*") != origins.end())
    bytes += "access-control-allow-origin: *\r\n";
  return bytes + "date: " + metrics::http_date() + "\r\ncontent-type: " + answer.content_type
         + "\r\nx-request-id: " + draw_request_id()
         + "\r\ncontent-length: " + std::to_string(answer.body.size()) + "\r\n\r\n" + answer.body;
}

} // namespace troupe::http
