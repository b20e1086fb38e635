// Answers completions and chats.
#pragma once

#include "services/gateway/http/api.hpp"
#include "services/gateway/http/exchange.hpp"

namespace troupe::http {

/// Reads, runs and answers one request for generated text, blocking or as a stream of events. A client that
/// leaves, or does not read, has its sequences cancelled.
/// @throws openai::api_error, background::too_busy before anything was sent
task<void> generate(exchange& client, api& shared, bool chat);

} // namespace troupe::http
