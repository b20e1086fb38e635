// What is served where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "services/gateway/http/endpoints/endpoint.hpp"

namespace troupe::http {

struct route {
  const char* path;
  endpoint_function answer;
  bool post = false;                ///< else GET and HEAD
  bool open = false;                ///< needs no API key
  size_t max_body_bytes = SIZE_MAX; ///< where that is less than the server's limit
};

/// All of them; docs/api.md is compared with these.
std::span<const route> all_routes();

/// The route of a request. A path that ends in a slash is the one of all names behind it.
/// @throws openai::api_error 404 for an unknown path, 405 for a wrong method (with `allow` set)
const route& find_route(std::string_view method, std::string_view path, std::string& allow);

/// Answers one request. Never throws for what a client or the cluster did wrong: that is an answer, too.
task<void> handle(exchange& client, api& shared, const route& where);

} // namespace troupe::http
