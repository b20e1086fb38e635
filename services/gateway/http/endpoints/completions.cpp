#include "services/gateway/http/endpoints/endpoint.hpp"

#include "services/gateway/http/generation.hpp"

namespace troupe::http {

task<void> post_completions(exchange& client, api& shared) {
  return generate(client, shared, false);
}

task<void> post_chat_completions(exchange& client, api& shared) {
  return generate(client, shared, true);
}

} // namespace troupe::http
