// Endpoints that wait for nothing: functions of the request alone, which need no Asio.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "services/gateway/http/api.hpp"

namespace troupe::http {

/// @throws openai::api_error
using page_function = response (*)(const request& asked, const api& shared);

response get_health(const request& asked, const api& shared);
response get_metrics(const request& asked, const api& shared);
response get_version(const request& asked, const api& shared);
response get_models(const request& asked, const api& shared);
response get_model(const request& asked, const api& shared);

/// JSON as bytes; what is not UTF-8 in its strings is replaced.
std::string render(const nlohmann::ordered_json& value);

} // namespace troupe::http
