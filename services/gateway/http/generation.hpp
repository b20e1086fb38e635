// Answers completions and chats.
#pragma once

#include "services/gateway/http/api.hpp"
#include "services/gateway/http/exchange.hpp"

namespace troupe::http {

/// Reads, runs and answers one request for generated text, as one answer or as a stream of events. If the
/// client leaves or does not read, its sequences are cancelled.
/// @throws openai::api_error, pool_too_busy before anything was sent
task<void> generate(exchange& client, api& shared, bool chat);

} // namespace troupe::http
