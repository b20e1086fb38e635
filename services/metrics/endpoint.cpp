#include "services/metrics/endpoint.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "services/asio/listen_at.hpp"
#include "services/metrics/http_date.hpp"
#include "services/metrics/open_metrics.hpp"
#include "services/metrics/page_source.hpp"

namespace troupe::metrics {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::use_awaitable;
using tcp = asio::ip::tcp;

namespace {

/// The connection of a scraper that has not sent its request, or not read the answer, by then is closed.
constexpr auto io_deadline = std::chrono::seconds{10};
constexpr std::size_t max_clients = 32;
/// After a failed accept (out of descriptors), before the next.
constexpr auto accept_pause = std::chrono::milliseconds{100};

/// The pages of a worker or a scheduler.
class process_pages final : public page_source {
 public:
  process_pages(std::shared_ptr<const registry> families, probes answers)
      : families_(std::move(families)), answers_(std::move(answers)) {}

  asio::awaitable<page> answer(std::string path, std::string /*query*/) override {
    page shown;
    if (path == "/metrics") {
      shown.content_type = text_content_type;
      shown.body = families_->text();
    } else if (path == "/health") {
      const std::string flaw = answers_.flaw ? answers_.flaw() : std::string{};
      shown.status = flaw.empty() ? 200 : 503;
      const std::string loading = answers_.loading ? answers_.loading() : std::string{};
      shown.body = !flaw.empty()     ? "to be replaced: " + flaw + "\n"
                   : loading.empty() ? "ok\n"
                                     : "loading: " + loading + "\n";
    } else if (path == "/ready") {
      const std::string why_not = answers_.why_not_ready ? answers_.why_not_ready() : std::string{};
      shown.status = why_not.empty() ? 200 : 503;
      shown.body = why_not.empty() ? "ready\n" : "not ready: " + why_not + "\n";
    } else {
      shown.status = 404;
      shown.body = "try /metrics, /health or /ready\n";
    }
    co_return shown;
  }

 private:
  std::shared_ptr<const registry> families_;
  probes answers_;
};

} // namespace

class endpoint::listener {
 public:
  listener(const endpoint_config& config, std::shared_ptr<page_source> pages)
      : pages_(std::move(pages)), acceptor_(io_) {
    listen_at(acceptor_, "metrics", config.host, config.port);
    port_ = acceptor_.local_endpoint().port();
    asio::co_spawn(io_, accept(), asio::detached);
    thread_ = std::thread{[this] { io_.run(); }};
  }

  ~listener() {
    io_.stop();
    thread_.join();
  }

  std::uint16_t port() const noexcept { return port_; }

  void show(std::shared_ptr<page_source> pages) {
    asio::post(io_, [this, pages = std::move(pages)]() mutable { pages_ = std::move(pages); });
  }

 private:
  asio::awaitable<void> accept() {
    for (;;) {
      tcp::socket socket{io_};
      beast::error_code error;
      co_await acceptor_.async_accept(socket, asio::redirect_error(use_awaitable, error));
      if (error) {
        asio::steady_timer pause{io_, accept_pause};
        co_await pause.async_wait(use_awaitable);
      } else if (clients_ < max_clients) {
        ++clients_;
        asio::co_spawn(io_, serve(beast::tcp_stream{std::move(socket)}),
                       [this](const std::exception_ptr&) { --clients_; });
      }
    }
  }

  asio::awaitable<void> serve(beast::tcp_stream stream) {
    beast::flat_buffer buffer{8192};
    for (bool more = true; more;) {
      bhttp::request_parser<bhttp::string_body> parser;
      parser.body_limit(4096);
      stream.expires_after(io_deadline);
      co_await bhttp::async_read(stream, buffer, parser, use_awaitable);
      const bhttp::request<bhttp::string_body> request = parser.release();
      bhttp::response<bhttp::string_body> response = co_await answer(request);
      response.version(request.version());
      response.keep_alive(request.keep_alive());
      response.prepare_payload();
      if (request.method() == bhttp::verb::head)
        response.body().clear();
      more = request.keep_alive();
      co_await bhttp::async_write(stream, response, use_awaitable);
    }
    stream.socket().shutdown(tcp::socket::shutdown_send);
  }

  asio::awaitable<bhttp::response<bhttp::string_body>>
  answer(const bhttp::request<bhttp::string_body>& request) {
    const std::string target(request.target());
    const std::size_t mark = std::min(target.find('?'), target.size());
    page shown;
    if (request.method() != bhttp::verb::get && request.method() != bhttp::verb::head) {
      shown.status = 405;
      shown.headers = {{"allow", "GET, HEAD"}};
      shown.body = "only GET and HEAD\n";
    } else {
      const std::shared_ptr<page_source> pages = pages_; // show() may replace them meanwhile
      shown =
          co_await pages->answer(target.substr(0, mark), target.substr(std::min(mark + 1, target.size())));
    }
    const auto accept = request[bhttp::field::accept];
    if (shown.content_type == text_content_type && accepts_open_metrics({accept.data(), accept.size()})) {
      shown.body = to_open_metrics(shown.body);
      shown.content_type = open_metrics_content_type;
    }
    bhttp::response<bhttp::string_body> response;
    response.result(shown.status);
    response.set(bhttp::field::date, http_date());
    response.set(bhttp::field::content_type, shown.content_type);
    for (const auto& [name, value] : shown.headers)
      response.set(name, value);
    response.body() = std::move(shown.body);
    co_return response;
  }

  std::shared_ptr<page_source> pages_; // outlives io_, which may hold unfinished answers
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  std::uint16_t port_ = 0;
  std::size_t clients_ = 0;
  std::thread thread_;
};

endpoint::endpoint(const endpoint_config& config, std::shared_ptr<const registry> families, probes answers)
    : endpoint(config, std::make_shared<process_pages>(std::move(families), std::move(answers))) {}

endpoint::endpoint(const endpoint_config& config, std::shared_ptr<page_source> pages)
    : listener_(std::make_unique<listener>(config, std::move(pages))) {}

endpoint::~endpoint() = default;

void endpoint::show(std::shared_ptr<page_source> pages) {
  listener_->show(std::move(pages));
}

std::uint16_t endpoint::port() const noexcept {
  return listener_->port();
}

} // namespace troupe::metrics
