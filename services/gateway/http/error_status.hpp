// The HTTP status of each error of the cluster.
#pragma once

#include <span>
#include <string>

#include "actors/protocol/error.hpp"
#include "services/gateway/openai/api_error.hpp"

namespace troupe::http {

/// How a client sees an error of the cluster.
struct cluster_error {
  ec code;
  const char* name;
  unsigned status;
  const char* type;
  unsigned retry_after; ///< seconds; 0: a retry does not help
};

/// All errors that have a status of their own. A test compares docs/api.md with them.
std::span<const cluster_error> cluster_errors();

/// The error as the client gets it, with Retry-After if a retry can help.
openai::api_error api_error_of(ec code, const std::string& text);

/// The value of the `reason` label.
const char* reason_of(ec code);

} // namespace troupe::http
