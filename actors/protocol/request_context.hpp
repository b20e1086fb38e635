// Identifies one client's request in the logs of all processes that it passes.
#pragma once

#include <functional>
#include <string>

#include "actors/protocol/declare_inspect.hpp"

namespace troupe {

/// Travels with a request for a place and with a generation_request; tokens do not carry it.
struct request_context {
  std::string id;          ///< of the HTTP request, from the client or drawn; empty in tests
  std::string traceparent; ///< W3C Trace Context, valid; empty: none was sent
  bool operator==(const request_context&) const = default;
};

TROUPE_DECLARE_INSPECT(request_context)

/// An event of a request, for the log.
struct request_event {
  const char* name; ///< stable: "request-placed"
  const request_context& request;
  std::string text;
};

/// Receives events of requests. It writes or enqueues them, and neither blocks nor throws. May be empty.
using request_events = std::function<void(const request_event&)>;

} // namespace troupe
