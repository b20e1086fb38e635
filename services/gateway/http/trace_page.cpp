#include "services/gateway/http/trace_page.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/fields.hpp"

namespace troupe::http {

using openai::invalid_request;
using openai::json;

trace_command parse_trace_command(std::string_view body) {
  constexpr double million = 1e6;
  constexpr double default_sample = 0.01;
  const json page = openai::parse_body(body);
  for (const auto& [name, value] : page.items())
    if (name != "action" && name != "sample")
      throw invalid_request("'" + name + "' is unknown; there are 'action' and 'sample'", name,
                            "unknown_parameter");
  const openai::fields all{page};
  const auto action = all.string("action");
  if (!action || (*action != "start" && *action != "stop"))
    throw invalid_request("'action' must be 'start' or 'stop'", "action",
                          action ? "invalid_value" : "missing_required_parameter");
  const auto sample = all.number("sample", 1 / million, 1);
  if (*action == "stop") {
    if (sample)
      throw invalid_request("'sample' goes with the action 'start' only", "sample", "invalid_value");
    return {0};
  }
  return {std::max(std::uint32_t{1},
                   static_cast<std::uint32_t>(std::lround(sample.value_or(default_sample) * million)))};
}

std::string trace_receipt_page(const trace_receipt& receipt) {
  json page;
  page["processes"] = json::array();
  for (const auto& process : receipt.processes) {
    json entry;
    entry["name"] = process.name;
    if (!process.error.empty())
      entry["error"] = process.error;
    page["processes"].push_back(std::move(entry));
  }
  return page.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace troupe::http
