#include "services/gateway/http/endpoints/page.hpp"

#include "services/metrics/open_metrics.hpp"
#include "services/metrics/registry.hpp"

namespace troupe::http {

response get_metrics(const request& asked, const api& shared) {
  response page = json_response(200, shared.metrics->families().text());
  page.content_type = metrics::text_content_type;
  if (metrics::accepts_open_metrics(asked.accept)) {
    page.body = metrics::to_open_metrics(page.body);
    page.content_type = metrics::open_metrics_content_type;
  }
  return page;
}

} // namespace troupe::http
