#include "services/gateway/openai/api_error.hpp"

#include <utility>

#include <nlohmann/json.hpp>

namespace troupe::openai {

api_error::api_error(unsigned http_status, std::string error_type, const std::string& message,
                     std::string parameter, std::string error_code)
    : std::runtime_error(message),
      status(http_status),
      type(std::move(error_type)),
      param(std::move(parameter)),
      code(std::move(error_code)) {}

api_error invalid_request(const std::string& message, std::string param, std::string code) {
  return {400, "invalid_request_error", message, std::move(param), std::move(code)};
}

api_error unsupported(const std::string& message, std::string param) {
  return {422, "invalid_request_error", message, std::move(param), "unsupported"};
}

std::string error_body(const api_error& error) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  nlohmann::ordered_json inner;
  inner["message"] = error.what();
  inner["type"] = error.type;
  inner["param"] = text_or_null(error.param);
  inner["code"] = text_or_null(error.code);
  nlohmann::ordered_json body;
  body["error"] = std::move(inner);
  // Messages may quote malformed UTF-8 from the client.
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace troupe::openai
