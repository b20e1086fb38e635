#include "services/client/http_client.hpp"

#include <limits>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "services/client/name_lookup.hpp"
#include "services/options/option_parser.hpp"

namespace troupe {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

/// Cuts a stream of bytes into server-sent events.
class event_splitter {
 public:
  explicit event_splitter(const event_handler& handler) : handler_(handler) {}

  void feed(std::string_view bytes) {
    buffer_ += bytes;
    size_t begin = 0;
    for (size_t end; (end = buffer_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      std::string_view line(buffer_.data() + begin, end - begin);
      if (line.starts_with("data: ")) {
        handler_(std::string(line.substr(6)));
      }
    }
    buffer_.erase(0, begin);
  }

 private:
  const event_handler& handler_;
  std::string buffer_;
};

/// What an answer that does not stream may have.
constexpr size_t max_body_bytes = size_t{1} << 30;

bool is_ssl_reason(const boost::system::error_code& error, int reason) {
  return error.category() == asio::error::get_ssl_category()
         && ERR_GET_REASON(static_cast<unsigned long>(error.value())) == reason;
}

asio::awaitable<void> shake_hands(asio::ssl::stream<beast::tcp_stream&>& stream, const server_url& server) {
  SSL* const engine = stream.native_handle();
  boost::system::error_code is_name;
  asio::ip::make_address(server.host, is_name);
  if (is_name) { // addresses are no server names (RFC 6066)
    SSL_set_tlsext_host_name(engine, server.host.c_str());
  }
  if (SSL_get_verify_mode(engine) != SSL_VERIFY_NONE) {
    stream.set_verify_callback(asio::ssl::host_name_verification(server.host));
  }
  boost::system::error_code error;
  co_await stream.async_handshake(asio::ssl::stream_base::client,
                                  asio::redirect_error(asio::use_awaitable, error));
  if (is_ssl_reason(error, SSL_R_CERTIFICATE_VERIFY_FAILED)) {
    const long why = SSL_get_verify_result(engine);
    throw http_error("the certificate of " + server.host + " is not trusted ("
                     + (why == X509_V_OK || why == X509_V_ERR_UNSPECIFIED
                            ? "it is for another host"
                            : X509_verify_cert_error_string(why))
                     + "): name its issuer with --ca-file, or say --insecure");
  }
  if (is_ssl_reason(error, SSL_R_WRONG_VERSION_NUMBER)) {
    throw http_error("the server does not speak TLS: begin the URL with http://");
  }
  if (error) {
    throw boost::system::system_error(error, "TLS");
  }
}

template <class Stream>
asio::awaitable<http_answer> converse(Stream& stream, http::request<http::string_body>& request,
                                      const event_handler& on_event) {
  co_await http::async_write(stream, request, asio::use_awaitable);
  beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  // Not boost::none: Beast of Boost 1.74 compares Content-Length with the empty optional and refuses it.
  parser.body_limit(std::numeric_limits<uint64_t>::max());
  co_await http::async_read_header(stream, buffer, parser, asio::use_awaitable);
  http_answer answer;
  answer.status = parser.get().result_int();
  bool streamed = on_event && parser.get()[http::field::content_type].starts_with("text/event-stream");
  event_splitter events(on_event);
  char chunk[16384];
  while (!parser.is_done()) {
    parser.get().body().data = chunk;
    parser.get().body().size = sizeof chunk;
    boost::system::error_code error;
    co_await http::async_read_some(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
    if (error && error != http::error::need_buffer) {
      throw boost::system::system_error(error);
    }
    std::string_view bytes(chunk, sizeof chunk - parser.get().body().size);
    if (streamed) {
      events.feed(bytes);
    } else if (answer.body.size() + bytes.size() > max_body_bytes) {
      throw http_error("the answer is larger than 1 GiB");
    } else {
      answer.body += bytes;
    }
  }
  co_return answer;
}

} // namespace

server_url parse_url(const std::string& text, const server_trust& trust, const std::string& source) {
  const bool secure = text.starts_with("https://");
  std::string rest = text;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (text.starts_with(scheme)) {
      rest = text.substr(scheme.size());
    }
  }
  if (!rest.empty() && rest.back() == '/') {
    rest.pop_back();
  }
  if (rest.find('/') != std::string::npos) {
    throw option_error(source + ": '" + text + "' is not of the form http://HOST:PORT or https://HOST:PORT");
  }
  host_port server = parse_host_port(rest, source);
  server_url url{server.host, server.port, {}, nullptr};
  if (!secure) {
    return url;
  }
  url.tls = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(url.tls->native_handle(), TLS1_2_VERSION);
  if (trust.insecure) {
    return url;
  }
  url.tls->set_verify_mode(asio::ssl::verify_peer);
  boost::system::error_code error;
  url.tls->set_default_verify_paths(error); // a system without any may still have a --ca-file
  if (!trust.ca_file.empty()) {
    url.tls->load_verify_file(trust.ca_file.string(), error);
    if (error) {
      throw option_error("--ca-file: " + trust.ca_file.string()
                         + " has no certificates in PEM that can be read (" + error.message() + ")");
    }
  }
  return url;
}

asio::awaitable<http_answer> exchange(const server_url& server, std::string method, std::string path,
                                      std::string body, std::chrono::milliseconds deadline,
                                      event_handler on_event) {
  std::string reason;
  try {
    auto executor = co_await asio::this_coro::executor;
    const auto end = std::chrono::steady_clock::now() + deadline;
    const auto endpoints = co_await look_up(server.host, server.port, end);
    beast::tcp_stream stream(executor);
    stream.expires_at(end);
    co_await stream.async_connect(endpoints, asio::use_awaitable);
    stream.socket().set_option(asio::ip::tcp::no_delay(true));

    http::request<http::string_body> request(http::string_to_verb(method), path, 11);
    request.set(http::field::host, host_port_text(server.host, server.port));
    if (!server.api_key.empty()) {
      request.set(http::field::authorization, "Bearer " + server.api_key);
    }
    request.set(http::field::connection, "close");
    if (!body.empty()) {
      request.set(http::field::content_type, "application/json");
    }
    request.body() = std::move(body);
    request.prepare_payload();
    if (!server.tls) {
      co_return co_await converse(stream, request, on_event);
    }
    asio::ssl::stream<beast::tcp_stream&> secured(stream, *server.tls);
    co_await shake_hands(secured, server);
    co_return co_await converse(secured, request, on_event);
  } catch (const boost::system::system_error& error) {
    reason = error.code().message();
  } catch (const lookup_error& error) {
    reason = error.what();
  } catch (const http_error& error) {
    reason = error.what();
  }
  throw http_error(method + " " + path + ": " + reason);
}

} // namespace troupe
