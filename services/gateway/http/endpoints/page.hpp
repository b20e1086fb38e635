// Endpoints that wait for nothing: plain functions from a request to a response, without Asio.
#pragma once

#include "services/gateway/http/api.hpp"

namespace troupe::http {

/// @throws openai::api_error
using page_function = response (*)(const request& asked, const api& shared);

response get_health(const request& asked, const api& shared);
response get_metrics(const request& asked, const api& shared);
response get_tokenizer_info(const request& asked, const api& shared);
response get_version(const request& asked, const api& shared);
response get_models(const request& asked, const api& shared);
response get_model(const request& asked, const api& shared);

} // namespace troupe::http
