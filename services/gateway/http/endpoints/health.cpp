#include "services/gateway/http/endpoints/page.hpp"

#include <nlohmann/json.hpp>

namespace troupe::http {

using nlohmann::ordered_json;

/// Describes this process alone, and does not use the pool: it must answer even while the pool is stuck.
response get_health(const request& /*asked*/, const api& shared) {
  const std::string flaw = shared.vitals.flaw();
  if (flaw.empty())
    return json_response(200, R"({"status":"ok"})");
  ordered_json page;
  page["status"] = "stuck";
  page["reason"] = flaw;
  return page_response(503, page);
}

} // namespace troupe::http
