// Routes of the API: which function answers a path, and for whom.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "services/gateway/http/api.hpp"
#include "services/gateway/http/exchange.hpp"

namespace troupe::http {

/// Answers one request, once, through `client`.
/// @throws openai::api_error, pool_too_busy, text::text_unavailable before anything was sent;
/// text::work_cancelled when the client has gone
using endpoint_function = task<void> (*)(exchange& client, api& shared);

/// Who may call a route.
enum class callers {
  anybody,  ///< no key is needed
  clients,  ///< a client's or an operator's key is needed, if the server has keys for clients
  operators ///< at the management port; with an operator's key; without any keys, from the machine itself
};

struct route {
  const char* path; ///< one that ends in a slash is the route of all paths that begin with it
  endpoint_function answer;
  callers who;
  bool post = false;                     ///< POST; false: GET and HEAD
  std::size_t max_body_bytes = SIZE_MAX; ///< the server's own limit holds as well
};

/// All routes of a server.
class route_table {
 public:
  /// @param routes  outlive this
  explicit constexpr route_table(std::span<const route> routes) : routes_(routes) {}

  auto begin() const { return routes_.begin(); }

  auto end() const { return routes_.end(); }

  /// The route of a request.
  /// @param allow  set to the methods that the path has
  /// @throws openai::api_error 404 for an unknown path, 405 for a wrong method
  const route& find(std::string_view method, std::string_view path, std::string& allow) const;

 private:
  std::span<const route> routes_;
};

/// Answers one request. Mistakes of the client and failures of the cluster become answers, not exceptions.
task<void> handle(exchange& client, api& shared, const route& where);

} // namespace troupe::http
