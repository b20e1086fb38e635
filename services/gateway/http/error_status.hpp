// Which HTTP status says what went wrong in the cluster.
#pragma once

#include <string>

#include "actors/error.hpp"
#include "services/gateway/openai/api_error.hpp"

namespace troupe::http {

/// The error as the client gets it, with Retry-After where trying again can help.
openai::api_error api_error_of(ec code, const std::string& text);

/// Its name in the `reason` label.
const char* reason_of(ec code);

} // namespace troupe::http
