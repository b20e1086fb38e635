// One HTTP request at a time, with or without TLS, with a deadline, on an Asio coroutine.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <utility> // Asio of Boost 1.74 needs it before its own headers

#include <boost/asio/awaitable.hpp>

#include "services/client/server_url.hpp"

namespace troupe {

/// Called for each `data:` line of a stream, the prefix removed.
using event_handler = std::function<void(std::string data)>;

/// Sends a request and reads the answer. With `on_event`, a body of type text/event-stream is handed over
/// line by line as it arrives.
/// @param server  outlives the exchange. With an https:// URL it must show a certificate for its host, signed
/// by a trusted one
/// @param deadline  for all of it, the look-up of the host's name included
/// @throws http_error when the host's name has no address, the connection fails, ends early or the deadline
/// passes
boost::asio::awaitable<http_answer> exchange(const server_url& server, std::string method, std::string path,
                                             std::string body, std::chrono::milliseconds deadline,
                                             event_handler on_event = {});

} // namespace troupe
