#include "services/client/http_client.hpp"

#include <exception>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/read_size.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
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
    std::size_t begin = 0;
    for (std::size_t end; (end = buffer_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      std::string_view line(buffer_.data() + begin, end - begin);
      if (line.starts_with("data: "))
        handler_(std::string(line.substr(6)));
    }
    buffer_.erase(0, begin);
  }

 private:
  const event_handler& handler_;
  std::string buffer_;
};

/// What an answer that does not stream may have.
constexpr std::size_t max_body_bytes = std::size_t{1} << 30;

bool is_ssl_reason(const boost::system::error_code& error, int reason) {
  return error.category() == asio::error::get_ssl_category()
         && ERR_GET_REASON(static_cast<unsigned long>(error.value())) == reason;
}

/// A connection to a server as a stream of bytes: TCP, or TLS over it. One type for both, and no templates,
/// so that what reads and writes messages is compiled once.
class connection {
 public:
  /// @param server  outlives the connection
  connection(const asio::any_io_executor& executor, const server_url& server)
      : server_(server), socket_(executor) {
    if (server.tls)
      tls_.emplace(socket_, *server.tls);
  }

  /// @param end  of everything that is done with the connection
  asio::awaitable<void> open(const std::vector<asio::ip::tcp::endpoint>& endpoints,
                             std::chrono::steady_clock::time_point end) {
    socket_.expires_at(end);
    co_await socket_.async_connect(endpoints, asio::use_awaitable);
    socket_.socket().set_option(asio::ip::tcp::no_delay(true));
    if (tls_)
      co_await shake_hands();
  }

  asio::awaitable<void> write(const std::string& text) {
    for (std::size_t sent = 0; sent < text.size();) {
      const asio::const_buffer rest = asio::buffer(text) + sent;
      if (tls_)
        sent += co_await tls_->async_write_some(rest, asio::use_awaitable);
      else
        sent += co_await socket_.async_write_some(rest, asio::use_awaitable);
    }
  }

  asio::awaitable<std::size_t> read_some(asio::mutable_buffer into, boost::system::error_code& error) {
    auto token = asio::redirect_error(asio::use_awaitable, error);
    if (tls_)
      co_return co_await tls_->async_read_some(into, token);
    co_return co_await socket_.async_read_some(into, token);
  }

 private:
  asio::awaitable<void> shake_hands() {
    SSL* const engine = tls_->native_handle();
    boost::system::error_code is_name;
    asio::ip::make_address(server_.host, is_name);
    if (is_name) // addresses are no server names (RFC 6066)
      SSL_set_tlsext_host_name(engine, server_.host.c_str());
    if (SSL_get_verify_mode(engine) != SSL_VERIFY_NONE)
      tls_->set_verify_callback(asio::ssl::host_name_verification(server_.host));
    boost::system::error_code error;
    co_await tls_->async_handshake(asio::ssl::stream_base::client,
                                   asio::redirect_error(asio::use_awaitable, error));
    if (is_ssl_reason(error, SSL_R_CERTIFICATE_VERIFY_FAILED)) {
      const long why = SSL_get_verify_result(engine);
      throw http_error("the certificate of " + server_.host + " is not trusted ("
                       + (why == X509_V_OK || why == X509_V_ERR_UNSPECIFIED
                              ? "it is for another host"
                              : X509_verify_cert_error_string(why))
                       + "): name its issuer with --ca-file, or say --insecure");
    }
    if (is_ssl_reason(error, SSL_R_WRONG_VERSION_NUMBER))
      throw http_error("the server does not speak TLS: begin the URL with http://");
    if (error)
      throw boost::system::system_error(error, "TLS");
  }

  const server_url& server_;
  beast::tcp_stream socket_;
  std::optional<asio::ssl::stream<beast::tcp_stream&>> tls_;
};

/// The request as it is sent.
std::string request_text(const server_url& server, const std::string& method, const std::string& path,
                         const std::string& body) {
  std::string text = method + " " + path + " HTTP/1.1\r\n";
  text += "Host: " + host_port_text(server.host, server.port) + "\r\n";
  if (!server.api_key.empty())
    text += "Authorization: Bearer " + server.api_key + "\r\n";
  text += "Connection: close\r\n";
  if (!body.empty())
    text += "Content-Type: application/json\r\n";
  if (!body.empty() || method == "POST")
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + body;
}

/// Gives the parser what the buffer has, and what comes until it is content or fails; as Beast's
/// async_read_some, which is compiled anew for each kind of stream.
asio::awaitable<boost::system::error_code> parse_some(connection& from, beast::flat_buffer& buffer,
                                                      http::basic_parser</*isRequest=*/false>& parser) {
  boost::system::error_code error;
  while (true) {
    if (buffer.size() > 0) {
      buffer.consume(parser.put(buffer.data(), error));
      if (error != http::error::need_more)
        co_return error;
    }
    error = {};
    const std::size_t count = co_await from.read_some(buffer.prepare(beast::read_size(buffer, 65536)), error);
    buffer.commit(count);
    if (error == asio::error::eof) {
      if (!parser.got_some())
        co_return http::error::end_of_stream;
      error = {};
      parser.put_eof(error);
      co_return error;
    }
    if (error)
      co_return error;
  }
}

asio::awaitable<http_answer> read_answer(connection& from, const event_handler& on_event) {
  beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  // Not boost::none: Beast of Boost 1.74 compares Content-Length with the empty optional and refuses it.
  parser.body_limit(std::numeric_limits<std::uint64_t>::max());
  while (!parser.is_header_done())
    if (const auto error = co_await parse_some(from, buffer, parser))
      throw boost::system::system_error(error);
  http_answer answer;
  answer.status = parser.get().result_int();
  bool streamed = on_event && parser.get()[http::field::content_type].starts_with("text/event-stream");
  event_splitter events(on_event);
  char chunk[16384];
  while (!parser.is_done()) {
    parser.get().body().data = chunk;
    parser.get().body().size = sizeof chunk;
    const auto error = co_await parse_some(from, buffer, parser);
    if (error && error != http::error::need_buffer)
      throw boost::system::system_error(error);
    std::string_view bytes(chunk, sizeof chunk - parser.get().body().size);
    if (streamed)
      events.feed(bytes);
    else if (answer.body.size() + bytes.size() > max_body_bytes)
      throw http_error("the answer is larger than 1 GiB");
    else
      answer.body += bytes;
  }
  co_return answer;
}

} // namespace

server_url parse_url(const std::string& text, const server_trust& trust, const std::string& source) {
  const bool secure = text.starts_with("https://");
  std::string rest = text;
  for (const std::string_view scheme : {"http://", "https://"})
    if (text.starts_with(scheme))
      rest = text.substr(scheme.size());
  if (!rest.empty() && rest.back() == '/')
    rest.pop_back();
  if (rest.find('/') != std::string::npos)
    throw option_error(source + ": '" + text + "' is not of the form http://HOST:PORT or https://HOST:PORT");
  host_port server = parse_host_port(rest, source);
  server_url url{server.host, server.port, {}, nullptr};
  if (!secure)
    return url;
  url.tls = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(url.tls->native_handle(), TLS1_2_VERSION);
  if (trust.insecure)
    return url;
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
    connection stream(executor, server);
    co_await stream.open(endpoints, end);
    co_await stream.write(request_text(server, method, path, body));
    co_return co_await read_answer(stream, on_event);
  } catch (const boost::system::system_error& error) {
    reason = error.code().message();
  } catch (const lookup_error& error) {
    reason = error.what();
  } catch (const http_error& error) {
    reason = error.what();
  }
  throw http_error(method + " " + path + ": " + reason);
}

http_answer fetch(const server_url& server, const std::string& method, const std::string& path,
                  std::string body, std::chrono::milliseconds deadline) {
  asio::io_context io;
  http_answer answer;
  std::exception_ptr failure;
  asio::co_spawn(io, exchange(server, method, path, std::move(body), deadline),
                 [&](std::exception_ptr error, http_answer what) {
                   failure = std::move(error);
                   answer = std::move(what);
                 });
  io.run();
  if (failure)
    std::rethrow_exception(failure);
  return answer;
}

} // namespace troupe
