#include "services/gateway/access_log.hpp"

#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

namespace {

std::vector<log_field> fields_of(const http::access_record& record) {
  std::vector<log_field> fields{
      {"request_id", record.request_id}, {"method", record.method}, {"path", record.path},
      {"status", record.status},         {"bytes", record.bytes},   {"total_seconds", record.total_seconds},
      {"client", record.client}};
  const auto add = [&fields](std::string_view name, const auto& value) {
    if (value)
      fields.emplace_back(name, *value);
  };
  add("prompt_tokens", record.prompt_tokens);
  add("output_tokens", record.output_tokens);
  add("queue_seconds", record.queue_seconds);
  add("first_token_seconds", record.first_token_seconds);
  const auto add_text = [&fields](std::string_view name, const std::string& text) {
    if (!text.empty())
      fields.emplace_back(name, text);
  };
  add_text("finish", record.finish);
  add_text("key_name", record.key_name);
  add_text("traceparent", record.traceparent);
  add_text("error", record.error);
  return fields;
}

} // namespace

access_log::access_log(const std::string& target, process_log log)
    : log_(std::move(log)), is_stderr_(target == "-") {
  if (target != "off")
    writer_ = std::make_unique<log_writer>(target, log_);
}

log_level access_log::level_of(const http::access_record& record) {
  if (record.status >= 500 || (record.status < 400 && !record.error.empty()))
    return log_level::warning;
  const bool is_probe = record.path == "/health" || record.path == "/ready" || record.path == "/metrics";
  return is_probe && record.status < 400 ? log_level::debug : log_level::info;
}

void access_log::write(const http::access_record& record) {
  const log_level level = level_of(record);
  const bool is_told = record.status >= 500 && !is_stderr_;
  if (!is_logged(level) || (!writer_ && !is_told))
    return;
  const auto fields = fields_of(record);
  const std::string what = record.method + " " + record.path + " " + std::to_string(record.status);
  if (writer_)
    writer_->write(format_log_line(configured_log_format(), std::chrono::system_clock::now(), level,
                                   log_.name(), "request", what, fields));
  if (is_told)
    log_.line(level, "request", what, fields);
}

void access_log::reopen() {
  if (writer_)
    writer_->reopen();
}

} // namespace troupe
