// Which pages of other origins may use the API (Fetch standard, "CORS protocol").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "services/gateway/http/message.hpp"

namespace troupe::http {

class cors_policy {
 public:
  /// @param allowed  origins in lower case; empty: off; "*": all. Outlives this
  explicit cors_policy(const std::vector<std::string>& allowed) : allowed_(allowed) {}

  bool allows_all() const;

  /// @param origin  the Origin header; empty: none was sent, which is never allowed
  bool allows(std::string_view origin) const;

  /// What an answer to a request of `origin` says to browsers and caches.
  header_list headers(const std::string& origin) const;

  /// Answers the OPTIONS request by which a browser asks whether a page may send its own request. An answer
  /// without these headers is a refusal.
  /// @param asked  Access-Control-Request-Headers
  response preflight(std::string_view origin, std::string_view asked) const;

 private:
  const std::vector<std::string>& allowed_;
};

} // namespace troupe::http
