#include "services/gateway/http/endpoints/page.hpp"

#include <nlohmann/json.hpp>

namespace troupe::http {

using nlohmann::ordered_json;

/// Of this process alone, and without the pool: it must be answered while that is stuck.
response get_health(const request& /*asked*/, const api& shared) {
  const std::string flaw = shared.vitals.flaw();
  if (flaw.empty()) {
    return json_response(200, R"({"status":"ok"})");
  }
  ordered_json page;
  page["status"] = "stuck";
  page["reason"] = flaw;
  return json_response(503, render(page));
}

} // namespace troupe::http
