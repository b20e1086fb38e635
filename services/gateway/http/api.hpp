// What all endpoints share, and how what they throw becomes an answer.
#pragma once

#include <atomic>
#include <cstddef>
#include <ctime>
#include <memory>
#include <string>

#include "services/gateway/http/current_value.hpp"
#include "services/gateway/http/health.hpp"
#include "services/gateway/http/http_server.hpp"
#include "services/gateway/http/key_usage.hpp"
#include "services/gateway/http/message.hpp"
#include "services/gateway/http/recent_refusals.hpp"
#include "services/gateway/http/tls_identity.hpp"
#include "services/gateway/metrics.hpp"
#include "services/gateway/openai/api_error.hpp"

namespace troupe::http {

class background;

/// What the endpoints share.
struct api {
  const http_server_config& config;
  std::shared_ptr<generation_backend> backend;
  std::shared_ptr<const openai::text_codec> codec;
  std::shared_ptr<gateway_metrics> metrics;
  background& work;
  const health& vitals;
  std::time_t started = std::time(nullptr); ///< when the models became available, for /v1/models
  std::atomic<bool> draining{false};        ///< not ready any more: who asks should go elsewhere
  current_value<api_keys> keys{config.keys};
  key_usage usage{config.key_limits, config.keys.names(), metrics, config.key_clock};
  recent_refusals refusals{config.limits.refusal_holds};
  std::atomic<size_t> gathered_bytes{0};       ///< of the answers in progress that do not stream
  current_value<tls_identity> tls{config.tls}; ///< null: there is none
};

/// What requests are checked against now: the longest context is the model's, or what the workers' KV caches
/// hold where that is less.
openai::request_limits limits_now(const api& shared);

/// The answer that tells an error.
response error_response(const openai::api_error& error);

/// The refusal of a request for which there is no room now, counted as one.
openai::api_error refused_for_room(const api& shared, const std::string& text);

/// The answer to what a step of a request has thrown. Call it where that is caught.
response answer_to_exception(const api& shared);

/// The model that answers; `asked` may be empty.
/// @throws openai::api_error 404 when it is not served here
std::string served_model(const api& shared, const std::string& asked);

} // namespace troupe::http
