#include "services/gateway/http/endpoints/endpoint.hpp"

#include <nlohmann/json.hpp>

namespace troupe::http {

using nlohmann::ordered_json;

/// Of this process alone, and without the pool: it must be answered while that is stuck.
task<void> get_health(exchange& client, api& shared) {
  const std::string flaw = shared.vitals.flaw();
  if (flaw.empty()) {
    co_await client.send(json_response(200, R"({"status":"ok"})"));
    co_return;
  }
  ordered_json page;
  page["status"] = "stuck";
  page["reason"] = flaw;
  co_await client.send(json_response(503, render(page)));
}

} // namespace troupe::http
