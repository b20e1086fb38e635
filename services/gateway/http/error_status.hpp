// Which HTTP status says what went wrong in the cluster.
#pragma once

#include <span>
#include <string>

#include "actors/error.hpp"
#include "services/gateway/openai/api_error.hpp"

namespace troupe::http {

/// What a failure in the cluster is to a client.
struct cluster_error {
  ec code;
  const char* name;
  unsigned status;
  const char* type;
  unsigned retry_after; ///< seconds; 0: trying again does not help
};

/// All that have a status of their own; docs/api.md is compared with these.
std::span<const cluster_error> cluster_errors();

/// The error as the client gets it, with Retry-After where trying again can help.
openai::api_error api_error_of(ec code, const std::string& text);

/// Its name in the `reason` label.
const char* reason_of(ec code);

} // namespace troupe::http
