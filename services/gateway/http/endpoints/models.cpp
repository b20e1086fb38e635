#include "services/gateway/http/endpoints/page.hpp"

#include <ctime>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace troupe::http {

using nlohmann::ordered_json;

namespace {

ordered_json model_card(const api& shared, const std::string& name, std::time_t created) {
  ordered_json card;
  card["id"] = name;
  card["object"] = "model";
  card["created"] = created;
  card["owned_by"] = "troupe";
  card["root"] = name; // not a path, which would reveal the layout of this machine
  card["parent"] = nullptr;
  card["max_model_len"] = limits_now(shared).max_model_len;
  return card;
}

} // namespace

response get_models(const request& /*asked*/, const api& shared) {
  ordered_json list = ordered_json::array();
  for (const std::string& name : shared.config.model_names)
    list.push_back(model_card(shared, name, shared.started));
  ordered_json page;
  page["object"] = "list";
  page["data"] = std::move(list);
  return page_response(200, page);
}

response get_model(const request& asked, const api& shared) {
  const std::string name = served_model(shared, asked.path.substr(std::string_view{"/v1/models/"}.size()));
  return page_response(200, model_card(shared, name, shared.started));
}

} // namespace troupe::http
