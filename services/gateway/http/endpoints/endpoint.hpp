// What answers a path of the API. Each endpoint is a function in a file of its own, here or in page.hpp; the
// table in routes.cpp says which path leads to which.
#pragma once

#include <chrono>

#include "services/gateway/http/api.hpp"
#include "services/gateway/http/endpoints/page.hpp"
#include "services/gateway/http/exchange.hpp"

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
task<void> get_ready(exchange& client, api& shared);
task<void> post_completions(exchange& client, api& shared);
task<void> post_chat_completions(exchange& client, api& shared);
task<void> post_tokenize(exchange& client, api& shared);
task<void> post_detokenize(exchange& client, api& shared);

/// For an answer of the scheduler or the rebalancer, which have deadlines of their own: this only guards
/// against none at all.
inline constexpr std::chrono::milliseconds status_deadline{8000};

} // namespace troupe::http
