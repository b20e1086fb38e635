// A request and its answer as plain values.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::http {

struct request {
  std::string method;      ///< "GET"
  std::string path;        ///< percent-decoded, without query
  std::string query;       ///< as it was sent, without "?"
  std::string id;          ///< x-request-id, the client's or ours
  std::string traceparent; ///< of W3C Trace Context; empty: no valid one was sent
  std::string accept;      ///< the header, as it was sent
  std::string key_name;    ///< of the API key that was sent; empty: no known one was sent
  std::string body;
};

using header_list = std::vector<std::pair<std::string, std::string>>;

struct response {
  unsigned status = 200;
  std::string body;
  std::string content_type = "application/json";
  header_list headers;
  std::string error{}; ///< for the log; empty: none
};

/// An answer in JSON.
inline response json_response(unsigned status, std::string body) {
  response answer;
  answer.status = status;
  answer.body = std::move(body);
  return answer;
}

} // namespace troupe::http
