// What tells the parts of one client's request apart from others in logs, in every process that it passes.
#pragma once

#include <functional>
#include <string>

#include "actors/declare_inspect.hpp"

namespace troupe {

/// Travels with a request when it asks for a place and when a worker begins it, and with no token.
struct request_context {
  std::string id;          ///< of the HTTP request, the client's or ours; empty in tests
  std::string traceparent; ///< W3C Trace Context, valid; empty: none was sent
  bool operator==(const request_context&) const = default;
};

TROUPE_DECLARE_INSPECT(request_context)

/// Something that happened to a request, for a log.
struct request_event {
  const char* name; ///< stable: "request-placed"
  const request_context& request;
  std::string text;
};

/// Takes events of requests: writes or hands over and returns, it neither blocks nor throws. May be empty.
using request_events = std::function<void(const request_event&)>;

} // namespace troupe
