#include "services/gateway/http/endpoints/endpoint.hpp"

#include <utility>

#include "services/metrics/registry.hpp"

namespace troupe::http {

task<void> get_metrics(exchange& client, api& shared) {
  response page = json_response(200, shared.metrics->families().text());
  page.content_type = metrics::text_content_type;
  co_await client.send(std::move(page));
}

} // namespace troupe::http
