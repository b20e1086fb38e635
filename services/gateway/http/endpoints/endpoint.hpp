// What answers a path of the API. Each endpoint is a function in a file of its own; the table in routes.cpp
// says which path leads to which.
#pragma once

#include <chrono>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "services/gateway/http/api.hpp"

namespace troupe::http {

/// Answers one request, once, through `client`.
/// @throws openai::api_error, background::too_busy, text::text_unavailable before anything was sent;
/// text::work_cancelled when the client has gone
using endpoint_function = task<void> (*)(exchange& client, api& shared);

task<void> get_cluster(exchange& client, api& shared);
task<void> get_history(exchange& client, api& shared);
task<void> get_placement(exchange& client, api& shared);
task<void> post_placement(exchange& client, api& shared);
task<void> post_trace(exchange& client, api& shared);
task<void> get_health(exchange& client, api& shared);
task<void> get_ready(exchange& client, api& shared);
task<void> get_metrics(exchange& client, api& shared);
task<void> get_version(exchange& client, api& shared);
task<void> get_models(exchange& client, api& shared);
task<void> get_model(exchange& client, api& shared);
task<void> post_completions(exchange& client, api& shared);
task<void> post_chat_completions(exchange& client, api& shared);
task<void> post_tokenize(exchange& client, api& shared);
task<void> post_detokenize(exchange& client, api& shared);

/// For an answer of the scheduler or the rebalancer, which have deadlines of their own: this only guards
/// against none at all.
inline constexpr std::chrono::milliseconds status_deadline{8000};

/// JSON as bytes; what is not UTF-8 in its strings is replaced.
std::string render(const nlohmann::ordered_json& value);

} // namespace troupe::http
