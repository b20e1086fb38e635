#include "services/gateway/http/endpoints/page.hpp"

#include "services/metrics/registry.hpp"

namespace troupe::http {

response get_metrics(const request& /*asked*/, const api& shared) {
  response page = json_response(200, shared.metrics->families().text());
  page.content_type = metrics::text_content_type;
  return page;
}

} // namespace troupe::http
