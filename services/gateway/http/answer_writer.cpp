#include "services/gateway/http/answer_writer.hpp"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>

#include "services/gateway/http/cors_policy.hpp"
#include "services/gateway/http/request_id.hpp"
#include "services/metrics/http_date.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/write.hpp>

namespace troupe::http {

namespace asio = boost::asio;
namespace bhttp = boost::beast::http;

namespace {

/// Status line and header fields, as they are sent.
std::string text_of(const bhttp::response<bhttp::empty_body>& head) {
  std::ostringstream text;
  text << head.base();
  return text.str();
}

} // namespace

bool answer_writer::keeps_alive() const {
  return request_.keep_alive && !request_.close && !stream_.draining() && !shared_.draining;
}

/// The head of an answer, but for the length of its body.
/// @param content_type  empty: there is no body
bhttp::response<bhttp::empty_body> answer_writer::head_of(unsigned status, const std::string& content_type,
                                                          const header_list& own) const {
  bhttp::response<bhttp::empty_body> head;
  head.result(status);
  head.version(request_.http_1_0 ? 10 : 11);
  if (!content_type.empty())
    head.set(bhttp::field::content_type, content_type);
  head.set(bhttp::field::server, "troupe");
  head.set(bhttp::field::date, metrics::http_date());
  head.set("x-request-id", request_.incoming.id);
  for (const auto& list : {cors_policy(shared_.config.allowed_origins).headers(request_.origin),
                           shared_.usage.headers(request_.incoming.key_name), own})
    for (const auto& [name, value] : list)
      head.set(name, value);
  head.keep_alive(keeps_alive());
  return head;
}

task<void> answer_writer::send(response answer) {
  if (request_.answered || stream_.gone()) {
    request_.close = true;
    co_return;
  }
  request_.answered = true;
  request_.record.status = answer.status;
  request_.record.error = answer.error;
  const bool has_body = answer.status != 204;
  auto head = head_of(answer.status, has_body ? answer.content_type : std::string{}, answer.headers);
  if (has_body)
    head.content_length(answer.body.size());
  std::string_view rest = answer.body;
  if (request_.head)
    rest = {};
  // The head does not travel alone, and is small enough to be copied together with what follows.
  std::string first = text_of(head);
  first += rest.substr(0, part_bytes);
  rest.remove_prefix(std::min(part_bytes, rest.size()));
  bool taken = co_await write_bytes(first);
  if (taken)
    taken = co_await write_parts(rest);
  if (!taken)
    shared_.metrics->client_gone(too_slow_);
  shared_.metrics->responded(request_.route_name, answer.status);
}

bool answer_writer::begin_stream(const std::string& content_type, const header_list& headers) {
  request_.answered = true;
  request_.record.status = 200;
  request_.chunked = !request_.http_1_0;
  // Without chunks only the end of the connection ends the answer.
  if (!request_.chunked)
    request_.close = true;
  auto head = head_of(200, content_type, headers);
  if (request_.chunked)
    head.chunked(true);
  request_.stream_head = text_of(head);
  shared_.metrics->responded(request_.route_name, 200);
  return !stream_.gone();
}

task<bool> answer_writer::write(std::string more) {
  std::string bytes = std::move(request_.stream_head);
  request_.stream_head.clear();
  if (request_.chunked && !more.empty()) { // an empty chunk would be the last one
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", more.size());
    bytes += size;
    bytes += more;
    bytes += "\r\n";
  } else {
    bytes += more;
  }
  const bool written = co_await write_parts(bytes);
  co_return written;
}

task<void> answer_writer::end_stream() {
  if (request_.chunked) {
    const std::string last_chunk = "0\r\n\r\n";
    co_await write_bytes(last_chunk);
  }
}

/// Each part has a deadline of its own.
task<bool> answer_writer::write_parts(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, part_bytes);
    bytes.remove_prefix(part.size());
    const bool taken = co_await write_bytes(part);
    if (!taken)
      co_return false;
  }
  co_return true;
}

task<bool> answer_writer::write_bytes(std::string_view bytes) {
  using clock = timed_stream::clock;
  if (stream_.gone())
    co_return false;
  const timed_stream::time_limit limit(stream_, clock::now() + shared_.config.limits.write);
  boost::system::error_code error;
  request_.record.bytes +=
      co_await asio::async_write(stream_.bytes(), asio::buffer(bytes.data(), bytes.size()),
                                 asio::redirect_error(asio::use_awaitable, error));
  request_.record.total_seconds = std::chrono::duration<double>(clock::now() - request_.begun).count();
  if (error) {
    too_slow_ = too_slow_ || stream_.timed_out();
    watch_.note_end();
  }
  co_return !error;
}

std::string bare_answer(const api& shared, const response& answer) {
  const auto phrase = bhttp::obsolete_reason(static_cast<bhttp::status>(answer.status));
  std::string bytes = "HTTP/1.1 " + std::to_string(answer.status) + " "
                      + std::string(phrase.data(), phrase.size()) + "\r\nconnection: close\r\n";
  for (const auto& [name, value] : answer.headers)
    bytes += name + ": " + value + "\r\n";
  // The origin was not read: a page may read this only if every origin is allowed.
  if (cors_policy(shared.config.allowed_origins).allows_all())
    bytes += "access-control-allow-origin: *\r\n";
  return bytes + "date: " + metrics::http_date() + "\r\ncontent-type: " + answer.content_type
         + "\r\nx-request-id: " + draw_request_id()
         + "\r\ncontent-length: " + std::to_string(answer.body.size()) + "\r\n\r\n" + answer.body;
}

} // namespace troupe::http
