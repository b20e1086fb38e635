#include "services/gateway/http/client_stream.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>

namespace troupe::http {

namespace asio = boost::asio;
using boost::system::error_code;

bool is_plain_http(const error_code& error) {
  if (error.category() != asio::error::get_ssl_category())
    return false;
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  return reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST;
}

const char* handshake_failure(const error_code& error, bool timed_out) {
  if (timed_out)
    return "timeout";
  if (is_plain_http(error))
    return "plain_http";
  return error.category() == asio::error::get_ssl_category() ? "protocol" : "left";
}

client_stream::client_stream(tcp_socket socket, const tls_identity* identity)
    : transport_{std::move(socket)} {
  if (identity != nullptr)
    tls_.emplace(transport_, identity->context());
}

task<error_code> client_stream::handshake() {
  error_code error;
  co_await tls_->async_handshake(asio::ssl::stream_base::server,
                                 asio::redirect_error(asio::use_awaitable, error));
  secured_ = !error;
  co_return error;
}

task<void> client_stream::finish() {
  if (finished_ || !transport_.socket.is_open())
    co_return;
  finished_ = true;
  error_code ignored;
  if (secured_) {
    // Pretend that the client's close_notify has come, so as not to wait for a silent client.
    SSL* const engine = tls_->native_handle();
    SSL_set_shutdown(engine, SSL_get_shutdown(engine) | SSL_RECEIVED_SHUTDOWN);
    co_await tls_->async_shutdown(asio::redirect_error(asio::use_awaitable, ignored));
  }
  transport_.socket.shutdown(asio::socket_base::shutdown_send, ignored);
}

void client_stream::stop_reading() {
  transport_.stopped = true;
  error_code ignored;
  transport_.socket.cancel(ignored);
}

void client_stream::close() {
  error_code ignored;
  transport_.socket.close(ignored);
}

} // namespace troupe::http
