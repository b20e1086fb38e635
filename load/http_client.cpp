#include "load/http_client.hpp"

#include <limits>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "services/options/option_parser.hpp"

namespace troupe::load {

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

} // namespace

server_url parse_url(const std::string& text) {
  constexpr std::string_view scheme = "http://";
  std::string rest = text.starts_with(scheme) ? text.substr(scheme.size()) : text;
  if (!rest.empty() && rest.back() == '/') {
    rest.pop_back();
  }
  if (rest.find('/') != std::string::npos) {
    throw option_error("--url: '" + text + "' is not of the form http://HOST:PORT");
  }
  host_port server = parse_host_port(rest, "--url");
  return {server.host, server.port, {}};
}

asio::awaitable<http_answer> exchange(const server_url& server, std::string method, std::string path,
                                      std::string body, std::chrono::seconds deadline,
                                      event_handler on_event) {
  try {
    auto executor = co_await asio::this_coro::executor;
    asio::ip::tcp::resolver resolver(executor);
    auto endpoints =
        co_await resolver.async_resolve(server.host, std::to_string(server.port), asio::use_awaitable);
    beast::tcp_stream stream(executor);
    stream.expires_after(deadline);
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
      co_await http::async_read_some(stream, buffer, parser,
                                     asio::redirect_error(asio::use_awaitable, error));
      if (error && error != http::error::need_buffer) {
        throw boost::system::system_error(error);
      }
      std::string_view bytes(chunk, sizeof chunk - parser.get().body().size);
      if (streamed) {
        events.feed(bytes);
      } else {
        answer.body += bytes;
      }
    }
    co_return answer;
  } catch (const boost::system::system_error& error) {
    throw http_error(method + " " + path + ": " + error.code().message());
  }
}

} // namespace troupe::load
