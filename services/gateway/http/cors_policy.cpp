#include "services/gateway/http/cors_policy.hpp"

#include <algorithm>

namespace troupe::http {

namespace {

/// Headers of answers that a page may read.
constexpr const char* exposed_headers =
    "x-request-id, x-troupe-seed, retry-after, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "
    "x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, "
    "x-ratelimit-reset-tokens";

} // namespace

bool cors_policy::allows_all() const {
  return std::find(allowed_.begin(), allowed_.end(), "*") != allowed_.end();
}

bool cors_policy::allows(std::string_view origin) const {
  return !origin.empty() && std::any_of(allowed_.begin(), allowed_.end(), [&](const std::string& allowed) {
    return allowed == "*" || allowed == origin;
  });
}

header_list cors_policy::headers(const std::string& origin) const {
  header_list result;
  const bool all = allows_all();
  if (allows(origin))
    result = {{"access-control-allow-origin", all ? "*" : origin},
              {"access-control-expose-headers", exposed_headers}};
  // A cache must not give one origin's answer to another origin, nor to a request without one.
  if (!allowed_.empty() && !all)
    result.emplace_back("vary", "origin");
  return result;
}

response cors_policy::preflight(std::string_view origin, std::string_view asked) const {
  response answer;
  answer.status = 204;
  if (!allows(origin))
    return answer;
  answer.headers = {
      {"access-control-allow-methods", "GET, HEAD, POST"},
      // By name: for Authorization browsers do not accept "*".
      {"access-control-allow-headers",
       asked.empty() ? "authorization, api-key, content-type, x-api-key, x-request-id" : std::string(asked)},
      {"access-control-max-age", "600"}};
  return answer;
}

} // namespace troupe::http
