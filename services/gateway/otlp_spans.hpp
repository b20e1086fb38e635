// Requests as spans of OpenTelemetry, in OTLP's JSON encoding. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "services/gateway/http/access_record.hpp"

namespace troupe {

/// One request for generated text. Names of attributes are those of OpenTelemetry's conventions for
/// generative AI and HTTP, and `troupe.*` where they have none.
struct otlp_span {
  http::access_record record;
  std::uint64_t end_unix_ns = 0;
  std::uint64_t span_id = 0; ///< not 0
};

/// A request is exported if it asked for generated text and its traceparent says `sampled` or is missing.
bool is_exported(const http::access_record& record);

/// The body of an export request.
/// @param model    name of the served model
/// @param service  name of this process
std::string otlp_body(std::span<const otlp_span> spans, const std::string& model, const std::string& service);

} // namespace troupe
