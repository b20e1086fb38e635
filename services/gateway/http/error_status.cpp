#include "services/gateway/http/error_status.hpp"

namespace troupe::http {

namespace {

// Retry-After: a queue drains in about a second, a lost worker is replaced within the 2 s lease, and a
// process that shuts down is replaced in some seconds.
constexpr cluster_error table[] = {
    {ec::overloaded, "overloaded", 429, "overloaded_error", 1},
    {ec::not_ready, "not_ready", 503, "service_unavailable_error", 2},
    {ec::not_hosted, "not_hosted", 503, "service_unavailable_error", 2},
    {ec::bad_request, "bad_request", 400, "invalid_request_error", 0},
    {ec::context_exceeded, "context_length_exceeded", 400, "invalid_request_error", 0},
    {ec::deadline_exceeded, "deadline_exceeded", 503, "service_unavailable_error", 5},
    {ec::peer_down, "peer_down", 503, "service_unavailable_error", 2},
    {ec::cancelled, "cancelled", 503, "service_unavailable_error", 1},
    {ec::stale_term, "stale_term", 503, "service_unavailable_error", 1},
    {ec::incompatible, "incompatible", 503, "service_unavailable_error", 5},
    {ec::engine_failed, "engine_failed", 500, "server_error", 0},
    {ec::shutting_down, "shutting_down", 503, "service_unavailable_error", 5},
    {ec::model_broken, "model_broken", 500, "server_error", 0},
};

constexpr cluster_error unknown{ec::none, "internal_error", 500, "server_error", 0};

const cluster_error& error_of(ec code) {
  for (const cluster_error& entry : table)
    if (entry.code == code)
      return entry;
  return unknown;
}

} // namespace

std::span<const cluster_error> cluster_errors() {
  return table;
}

openai::api_error api_error_of(ec code, const std::string& text) {
  const cluster_error& entry = error_of(code);
  openai::api_error error{entry.status, entry.type, text.empty() ? entry.name : text, {}, entry.name};
  error.retry_after = entry.retry_after;
  return error;
}

const char* reason_of(ec code) {
  return error_of(code).name;
}

} // namespace troupe::http
