#include "services/gateway/http/api.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "services/gateway/http/error_status.hpp"
#include "services/gateway/http/pool_progress.hpp"
#include "services/gateway/text/text_error.hpp"

namespace troupe::http {

using openai::api_error;

openai::request_limits limits_now(const api& shared) {
  openai::request_limits limits = shared.config.requests;
  if (const std::uint32_t held = shared.backend->max_model_len(); held > 0)
    limits.max_model_len = std::min(limits.max_model_len, held);
  return limits;
}

response error_response(const api_error& error) {
  response answer = json_response(error.status, openai::error_body(error));
  answer.error = error.what();
  if (error.retry_after > 0)
    answer.headers.emplace_back("retry-after", std::to_string(error.retry_after));
  return answer;
}

api_error refused_for_room(const api& shared, const std::string& text) {
  shared.metrics->rejected(reason_of(ec::overloaded));
  return api_error_of(ec::overloaded, text);
}

response answer_to_exception(const api& shared) {
  try {
    throw;
  } catch (const api_error& e) {
    return error_response(e);
  } catch (const pool_too_busy& e) {
    return error_response(refused_for_room(shared, e.what()));
  } catch (const text::text_unavailable& e) {
    return error_response(refused_for_room(shared, e.what()));
  } catch (const std::exception& e) {
    return error_response(api_error(500, "server_error", std::string("internal error: ") + e.what()));
  }
}

std::string served_model(const api& shared, const std::string& asked) {
  const auto& names = shared.config.model_names;
  if (asked.empty())
    return names.front();
  for (const std::string& name : names)
    if (name == asked)
      return name;
  throw api_error(404, "invalid_request_error", "The model `" + asked + "` does not exist", "model",
                  "model_not_found");
}

response page_response(unsigned status, const nlohmann::ordered_json& page) {
  return json_response(status, page.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

} // namespace troupe::http
