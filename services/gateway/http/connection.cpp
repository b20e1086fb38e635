#include "services/gateway/http/connection.hpp"

#include <optional>
#include <utility>

#include "services/gateway/http/header_check.hpp"
#include "services/gateway/http/routes.hpp"
#include "services/options/option_parser.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace troupe::http {

namespace asio = boost::asio;
using boost::system::error_code;
using openai::api_error;
using std::chrono::steady_clock;

namespace {

/// What one read may bring.
constexpr std::size_t read_bytes = 64 << 10;

} // namespace

connection::connection(client_stream::tcp_socket socket, api& shared, connection_context& context,
                       std::unique_ptr<connection_table::place> place, const network_address& peer)
    : shared_(shared),
      context_(context),
      place_(std::move(place)),
      peer_(peer),
      // The buffer is bounded, because the extensions of a chunk must fit as a whole.
      stream_(std::make_shared<timed_stream>(std::move(socket), context.tls.get().get(),
                                             shared.config.limits.max_pipelined_bytes
                                                 + shared.config.limits.max_header_bytes + read_bytes)),
      watch_(*stream_, shared.config.limits.max_pipelined_bytes),
      reader_(shared, context, *stream_, watch_),
      writer_(shared, *stream_, watch_, request_) {
  shared_.metrics->connection_opened();
  error_code unknown;
  if (const auto from = stream_->bytes().socket().remote_endpoint(unknown); !unknown)
    client_ = host_port_text(from.address().to_string(), from.port());
}

connection::~connection() {
  shared_.metrics->connection_closed();
}

task<void> connection::run() {
  const auto self = shared_from_this();
  bool more = co_await shake_hands();
  while (more) {
    more = co_await reader_.wait();
    if (!more)
      break;
    stream_->set_idle(false);
    more = co_await serve_request();
    tell_access();
    stream_->set_idle(true);
    request_.ticket.reset();
    place_->end_request();
    drop_body();
  }
  co_await stream_->say_goodbye();
  stream_->bytes().close();
  place_.reset();
}

void connection::drain() {
  asio::post(executor(), [self = shared_from_this()] { self->stream_->drain(); });
}

void connection::hurry() {
  asio::post(executor(), [self = shared_from_this()] { self->watch_.hurry(); });
}

void connection::cut() {
  asio::post(executor(), [self = shared_from_this()] {
    self->stream_->drain();
    self->stream_->bytes().close();
    self->watch_.note_end();
  });
}

task<bool> connection::shake_hands() {
  if (!stream_->bytes().has_tls())
    co_return true;
  error_code error;
  {
    const timed_stream::time_limit limit(*stream_, reader_.header_deadline());
    error = co_await stream_->bytes().handshake();
  }
  if (error && !stream_->draining()) {
    shared_.metrics->handshake_failed(handshake_failure(error, stream_->timed_out()));
    if (const auto& told = shared_.config.handshake_failed)
      told(client_, stream_->timed_out() ? "no handshake in time" : error.message());
  }
  if (error && is_plain_http(error))
    co_await answer_plain_http();
  co_return !error;
}

/// In plain HTTP, because the client does not speak TLS.
task<void> connection::answer_plain_http() {
  stream_->set_idle(false);
  const response refusal = error_response(api_error(
      400, "invalid_request_error", "This port speaks TLS: begin the URL with https://", {}, "tls_expected"));
  const std::string bytes = bare_answer(shared_, refusal);
  auto& record = request_.record;
  record.method = record.path = "-"; // not read
  record.status = refusal.status;
  record.error = refusal.error;
  request_.answered = true;
  {
    const timed_stream::time_limit limit(*stream_, steady_clock::now() + shared_.config.limits.write);
    error_code ignored;
    record.bytes += co_await asio::async_write(stream_->bytes().socket(), asio::buffer(bytes),
                                               asio::redirect_error(asio::use_awaitable, ignored));
  }
  tell_access();
  co_await stream_->linger();
}

task<bool> connection::serve_request() {
  request_ = served_request{};
  bool complete = co_await refused_if_thrown(reader_.read_header(request_));
  if (!complete || !place_->begin_request())
    co_return false;
  const request_header header = reader_.header();
  header_verdict verdict = header_check(context_, peer_, header, request_).run();
  try {
    if (!verdict.refused)
      reader_.limit_body(verdict.max_body_bytes);
  } catch (const api_error& error) {
    verdict = {.answer = error_response(error), .refused = true};
  }
  if (verdict.refused && (request_.close || reader_.has_large_body())) {
    co_await refuse_and_close(std::move(verdict.answer));
    co_return false;
  }
  complete = co_await refused_if_thrown(read_body());
  if (!complete)
    co_return false;
  std::optional<response> answer;
  if (verdict.where == nullptr)
    answer = std::move(verdict.answer);
  else
    try {
      co_await reader_.decode(request_);
    } catch (const std::exception&) {
      answer = answer_to_exception(shared_);
      drop_body();
    }
  if (answer)
    co_await send(std::move(*answer));
  else
    co_await handle(*this, shared_, *verdict.where);
  co_return !gone() && writer_.keeps_alive();
}

task<bool> connection::read_body() {
  if (reader_.awaits_leave()) {
    const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    const bool written = co_await writer_.write_bytes(go_on);
    if (!written)
      co_return false;
  }
  const bool complete = co_await reader_.read_body(request_.incoming.body);
  co_return complete;
}

/// Runs a step of reading; a refusal that it throws is sent, and ends the connection.
task<bool> connection::refused_if_thrown(task<bool> step) {
  std::optional<response> refusal;
  bool complete = false;
  try {
    complete = co_await std::move(step);
  } catch (const api_error& error) {
    refusal = error_response(error);
  }
  if (refusal)
    co_await refuse_and_close(std::move(*refusal));
  co_return complete;
}

task<void> connection::refuse_and_close(response refusal) {
  request_.close = true;
  co_await send(std::move(refusal));
  co_await stream_->linger();
}

/// The one call of the access log: the answer of a request has ended, or there will be none.
void connection::tell_access() {
  auto& record = request_.record;
  if (!shared_.config.access || (record.method.empty() && !request_.answered))
    return;
  if (!request_.answered)
    record.status = 499; // as nginx writes it
  if (gone() && record.error.empty())
    record.error = too_slow() ? "the client did not read in time" : "the client left before the end";
  if (!request_.answered || gone())
    record.total_seconds = std::chrono::duration<double>(steady_clock::now() - request_.begun).count();
  if (record.client.empty())
    record.client = client_;
  record.key_name = request_.incoming.key_name;
  record.request_id = request_.incoming.id;
  record.traceparent = request_.incoming.traceparent;
  shared_.config.access(record);
}

} // namespace troupe::http
