// Errors in the form that OpenAI's clients understand.
#pragma once

#include <stdexcept>
#include <string>

namespace troupe::openai {

/// A fault of the client, or something that the server cannot do (now). Thrown while a request is read, and
/// rendered once, at the edge.
class api_error : public std::runtime_error {
 public:
  api_error(unsigned http_status, std::string error_type, const std::string& message,
            std::string parameter = {}, std::string error_code = {});

  unsigned status;          ///< HTTP
  std::string type;         ///< "invalid_request_error", …
  std::string param;        ///< the field at fault; empty: none
  std::string code;         ///< "model_not_found", …; empty: none
  unsigned retry_after = 0; ///< seconds; 0: no Retry-After
};

/// 400: the request is malformed or out of range.
api_error invalid_request(const std::string& message, std::string param = {}, std::string code = {});
/// 422: the request is well formed but asks for a feature of the API that this server lacks.
api_error unsupported(const std::string& message, std::string param);

/// `{"error":{"message","type","param","code"}}`.
std::string error_body(const api_error& error);

} // namespace troupe::openai
