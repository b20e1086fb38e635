// Questions of operators: what the endpoints under /cluster have in common.
#pragma once

#include <chrono>
#include <utility>
#include <variant>

#include "services/gateway/http/api.hpp"
#include "services/gateway/http/endpoints/endpoint.hpp"
#include "services/gateway/http/error_status.hpp"
#include "services/gateway/http/exchange.hpp"

namespace troupe::http {

/// The services have deadlines of their own: this one only guards against no answer at all.
inline constexpr std::chrono::milliseconds status_deadline{8000};

/// Asks the cluster and waits for its answer.
/// @param late_code  the error when there is no answer within `patience`
/// @param late_text  its text
task<control_outcome> ask_control(exchange& client, api& shared, control_question question, ec late_code,
                                  const char* late_text,
                                  std::chrono::milliseconds patience = status_deadline);

/// @throws openai::api_error for an error
template <class Answer>
Answer answer_in(control_outcome outcome) {
  if (const auto* error = std::get_if<backend_error>(&outcome))
    throw api_error_of(error->code, error->text);
  return std::get<Answer>(std::get<control_answer>(std::move(outcome)));
}

} // namespace troupe::http
