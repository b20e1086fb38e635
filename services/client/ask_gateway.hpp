// One question over HTTP to the gateway of a running cluster, on an Asio coroutine.
#pragma once

#include <chrono>
#include <string>

#include "services/client/gateway_client.hpp"
#include "services/client/http_client.hpp"

namespace troupe {

/// @param server  that `url` names; outlives the question
/// @param json  the body; empty: none
/// @param deadline  for connection and answer together
/// @returns the body
/// @throws refused_by_gateway, and std::runtime_error that names the URL when there is no answer
boost::asio::awaitable<std::string> ask_gateway(const server_url& server, std::string url, std::string method,
                                                std::string path, std::string json,
                                                std::chrono::milliseconds deadline);

} // namespace troupe
