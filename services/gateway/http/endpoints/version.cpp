#include "services/gateway/http/endpoints/page.hpp"

#include <nlohmann/json.hpp>

namespace troupe::http {

response get_version(const request& /*asked*/, const api& shared) {
  nlohmann::ordered_json page;
  page["version"] = shared.config.version;
  for (const auto& [name, value] : shared.config.details)
    page[name] = value;
  return page_response(200, page);
}

} // namespace troupe::http
