// One request of a connection, from its header to the end of its answer.
#pragma once

#include <chrono>
#include <string>

#include "services/gateway/http/access_record.hpp"
#include "services/gateway/http/client_requests.hpp"
#include "services/gateway/http/content_coding.hpp"
#include "services/gateway/http/message.hpp"

namespace troupe::http {

struct served_request {
  request incoming;
  access_record record;
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  std::string origin;                               ///< the Origin header; empty: none was sent
  client_requests::ticket ticket;                   ///< null unless the client is behind a trusted proxy
  const char* route_name = "other";                 ///< for metrics
  content_coding coding = content_coding::identity; ///< of the body
  std::string stream_head;                          ///< head of a streamed answer that is not written yet
  bool http_1_0 = false;
  bool head = false;       ///< the method is HEAD, so the answer has no body
  bool keep_alive = false; ///< the client wants to keep the connection
  bool close = false;      ///< the connection ends after this answer
  bool answered = false;   ///< the head of the answer was sent, or will be
  bool chunked = false;    ///< the answer is streamed in chunks
};

} // namespace troupe::http
