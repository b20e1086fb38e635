#include "services/gateway/otlp_spans.hpp"

#include <nlohmann/json.hpp>

#include "actors/timeline/sampling.hpp"

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

constexpr auto completions = "/v1/completions";
constexpr auto chat_completions = "/v1/chat/completions";
constexpr int server_kind = 2;
constexpr int error_status = 2;

std::string hex(std::uint64_t number) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; number >>= 4)
    text[i] = digits[number & 15];
  return text;
}

timeline::trace_identity identity_of(const http::access_record& record) {
  return timeline::identity_of({record.request_id, record.traceparent});
}

json text_value(const std::string& text) {
  return {{"stringValue", text}};
}

json attribute(const char* name, json value) {
  return {{"key", name}, {"value", std::move(value)}};
}

/// OTLP's JSON writes 64-bit integers as strings.
json attribute(const char* name, std::uint64_t number) {
  return attribute(name, json{{"intValue", std::to_string(number)}});
}

json finish_reasons(const std::string& reasons) {
  json values = json::array();
  for (std::size_t begin = 0; begin <= reasons.size();) {
    const auto end = std::min(reasons.find(',', begin), reasons.size());
    values.push_back(text_value(reasons.substr(begin, end - begin)));
    begin = end + 1;
  }
  return {{"arrayValue", {{"values", std::move(values)}}}};
}

json attributes_of(const http::access_record& record, const std::string& operation,
                   const std::string& model) {
  json all = json::array({attribute("gen_ai.operation.name", text_value(operation)),
                          attribute("gen_ai.provider.name", text_value("troupe")),
                          attribute("gen_ai.request.model", text_value(model)),
                          attribute("http.request.method", text_value(record.method)),
                          attribute("url.path", text_value(record.path)),
                          attribute("http.response.status_code", std::uint64_t{record.status}),
                          attribute("troupe.request_id", text_value(record.request_id))});
  if (record.prompt_tokens)
    all.push_back(attribute("gen_ai.usage.input_tokens", *record.prompt_tokens));
  if (record.output_tokens)
    all.push_back(attribute("gen_ai.usage.output_tokens", *record.output_tokens));
  if (!record.finish.empty())
    all.push_back(attribute("gen_ai.response.finish_reasons", finish_reasons(record.finish)));
  if (record.queue_seconds)
    all.push_back(attribute("troupe.queue_seconds", json{{"doubleValue", *record.queue_seconds}}));
  if (record.first_token_seconds)
    all.push_back(
        attribute("troupe.first_token_seconds", json{{"doubleValue", *record.first_token_seconds}}));
  return all;
}

json span_of(const otlp_span& one, const std::string& model) {
  const auto& record = one.record;
  const auto identity = identity_of(record);
  const std::string operation = record.path == chat_completions ? "chat" : "text_completion";
  const auto duration = static_cast<std::uint64_t>(record.total_seconds * 1e9);
  json span{{"traceId", hex(identity.trace_high) + hex(identity.trace_low)},
            {"spanId", hex(one.span_id)},
            {"name", operation + " " + model},
            {"kind", server_kind},
            {"startTimeUnixNano", std::to_string(one.end_unix_ns - duration)},
            {"endTimeUnixNano", std::to_string(one.end_unix_ns)},
            {"attributes", attributes_of(record, operation, model)}};
  if (identity.parent_span != 0)
    span["parentSpanId"] = hex(identity.parent_span);
  if (!record.error.empty())
    span["status"] = {{"code", error_status}, {"message", record.error}};
  return span;
}

} // namespace

bool is_exported(const http::access_record& record) {
  return (record.path == completions || record.path == chat_completions)
         && (record.traceparent.empty() || identity_of(record).wants_tracing);
}

std::string otlp_body(std::span<const otlp_span> spans, const std::string& model,
                      const std::string& service) {
  json list = json::array();
  for (const auto& one : spans)
    list.push_back(span_of(one, model));
  const json resource{{"attributes", json::array({attribute("service.name", text_value("troupe")),
                                                  attribute("service.instance.id", text_value(service))})}};
  json scope_spans{{"scope", {{"name", "troupe.gateway"}}}, {"spans", std::move(list)}};
  json body;
  body["resourceSpans"] =
      json::array({json{{"resource", resource}, {"scopeSpans", json::array({std::move(scope_spans)})}}});
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace troupe
