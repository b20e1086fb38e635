#include "services/gateway/http/endpoints/endpoint.hpp"

#include <nlohmann/json.hpp>

namespace troupe::http {

task<void> get_version(exchange& client, api& shared) {
  nlohmann::ordered_json page;
  page["version"] = shared.config.version;
  for (const auto& [name, value] : shared.config.details)
    page[name] = value;
  co_await client.send(json_response(200, render(page)));
}

} // namespace troupe::http
