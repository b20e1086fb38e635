// What all endpoints share, and how their exceptions become answers.
#pragma once

#include <atomic>
#include <cstddef>
#include <ctime>
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "services/gateway/http/gateway_metrics.hpp"
#include "services/gateway/http/health.hpp"
#include "services/gateway/http/http_server.hpp"
#include "services/gateway/http/key_usage.hpp"
#include "services/gateway/http/message.hpp"
#include "services/gateway/http/recent_refusals.hpp"
#include "services/gateway/openai/api_error.hpp"

namespace troupe::http {

class background;

/// Shared by all endpoints of a server.
struct api {
  const http_server_config& config;
  std::shared_ptr<generation_backend> backend;
  std::shared_ptr<control_backend> control;
  std::shared_ptr<const openai::text_codec> codec;
  std::shared_ptr<gateway_metrics> metrics;
  background& work;
  const health& vitals;
  std::time_t started = std::time(nullptr); ///< when the models became available, for /v1/models
  std::atomic<bool> draining{false};        ///< not ready any more: clients should go elsewhere
  key_usage usage{config.key_limits, config.keys.names(), metrics, config.key_clock};
  recent_refusals refusals{config.limits.refusal_holds};
  std::atomic<std::size_t> gathered_bytes{0}; ///< of the answers in progress that do not stream
};

/// The limits of requests now. The longest context is the model's, or less if the workers' KV caches hold
/// less.
openai::request_limits limits_now(const api& shared);

/// An answer in JSON. Bytes of its strings that are not UTF-8 are replaced.
response page_response(unsigned status, const nlohmann::ordered_json& page);

/// The answer that reports an error.
response error_response(const openai::api_error& error);

/// The refusal of a request for which there is no room now. Counts the refusal.
openai::api_error refused_for_room(const api& shared, const std::string& text);

/// The answer to the exception of a step of a request. Call it in the handler of that exception.
response answer_to_exception(const api& shared);

/// The name of the model that answers; `asked` may be empty.
/// @throws openai::api_error 404 when it is not served here
std::string served_model(const api& shared, const std::string& asked);

} // namespace troupe::http
