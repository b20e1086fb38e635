#include "services/gateway/http/http_server.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <unordered_map>

#include "services/gateway/http/connection.hpp"
#include "services/gateway/http/error_status.hpp"
#include "services/gateway/http/request_id.hpp"
#include "services/metrics/http_date.hpp"
#include "services/options/listen_address.hpp"
#include "services/options/option_parser.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace troupe {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;
using http::task;

namespace {

/// After a failed accept (out of descriptors), before the next.
constexpr auto accept_pause = std::chrono::milliseconds{100};
/// For clients to be told that their answers end here, once those have had their time to end by themselves.
constexpr auto farewell_patience = std::chrono::seconds{1};
/// For connections to end once they are cut.
constexpr auto cut_patience = std::chrono::seconds{5};

void validate(const http_server_config& config) {
  if (config.model_names.empty())
    throw std::runtime_error("http: no model name to serve under");
  if (config.requests.max_model_len < 2)
    throw std::runtime_error("http: max_model_len must be at least 2");
  if (config.requests.vocab_size < 1)
    throw std::runtime_error("http: vocab_size must be at least 1");
  if (config.threads < 1 || config.text_threads < 1)
    throw std::runtime_error("http: at least one thread of each kind is needed");
}

} // namespace

class http_server::implementation {
 public:
  implementation(http_server_config config, std::shared_ptr<generation_backend> backend,
                 std::shared_ptr<const openai::text_codec> codec, std::shared_ptr<gateway_metrics> metrics)
      : config_(std::move(config)),
        work_(std::make_unique<http::background>(config_.text_threads, config_.limits.max_background_bytes)),
        shared_{config_, std::move(backend), std::move(codec), std::move(metrics), *work_},
        limits_{config_.limits},
        io_(static_cast<int>(config_.threads)),
        guard_(io_.get_executor()),
        acceptor_(asio::make_strand(io_)) {
    validate(config_);
    listen();
    asio::co_spawn(acceptor_.get_executor(), accept(), asio::detached);
    for (unsigned i = 0; i < config_.threads; ++i)
      threads_.emplace_back([this] { io_.run(); });
  }

  ~implementation() {
    stop(std::chrono::milliseconds{0});
    // Coroutines that wait for background work end before the I/O they hold.
    work_.reset();
  }

  uint16_t port() const noexcept { return port_; }

  void set_keys(http::api_keys keys, const http::key_limit_table& limits) {
    shared_.usage.replace(limits, keys.names());
    shared_.keys.set(std::move(keys));
  }

  void stop(std::chrono::milliseconds patience) {
    const std::lock_guard one_at_a_time{stopping_};
    if (threads_.empty())
      return;
    shared_.draining = true;
    asio::post(acceptor_.get_executor(), [this] {
      error_code ignored;
      acceptor_.close(ignored);
    });
    if (!wait_for_connections(&http::connection::drain, patience)
        && !wait_for_connections(&http::connection::hurry, farewell_patience))
      wait_for_connections(&http::connection::cut, cut_patience);
    work_->stop();
    io_.stop();
    for (std::thread& thread : threads_)
      thread.join();
    threads_.clear();
  }

 private:
  void listen() {
    try {
      const tcp::endpoint address = listen_address(config_.host, config_.port);
      acceptor_.open(address.protocol());
      acceptor_.set_option(asio::socket_base::reuse_address(true));
      acceptor_.bind(address);
      acceptor_.listen(asio::socket_base::max_listen_connections);
      port_ = acceptor_.local_endpoint().port();
    } catch (const boost::system::system_error& e) {
      throw std::runtime_error("http: cannot listen on " + host_port_text(config_.host, config_.port) + ": "
                               + e.code().message());
    }
  }

  task<void> accept() {
    while (!shared_.draining) {
      tcp::socket socket{asio::make_strand(io_)};
      error_code error;
      co_await acceptor_.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
      if (shared_.draining)
        break;
      if (error) {
        asio::steady_timer pause{acceptor_.get_executor(), accept_pause};
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      } else {
        admit(std::move(socket));
      }
    }
  }

  void admit(tcp::socket socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    if (config_.limits.send_buffer_bytes > 0)
      socket.set_option(
          asio::socket_base::send_buffer_size(static_cast<int>(config_.limits.send_buffer_bytes)), ignored);
    const std::lock_guard lock{mutex_};
    if (shared_.draining)
      return;
    if (connections_.size() >= config_.limits.max_connections)
      return turn_away(std::move(socket));
    const auto executor = socket.get_executor();
    auto fresh = std::make_shared<http::connection>(std::move(socket), shared_, limits_);
    connections_.emplace(fresh.get(), fresh);
    asio::co_spawn(executor, fresh->run(), [this, fresh](const std::exception_ptr&) mutable {
      const http::connection* ended = fresh.get();
      fresh.reset();
      const std::lock_guard ending{mutex_};
      connections_.erase(ended);
      if (connections_.empty())
        all_closed_.notify_all();
    });
  }

  void turn_away(tcp::socket socket) {
    shared_.metrics->connection_refused();
    const http::response refusal =
        http::error_response(http::api_error_of(ec::overloaded, "too many connections are open"));
    // Its origin has not been read: only where all may come can a page be let to read this.
    const auto& origins = config_.allowed_origins;
    const bool all = std::find(origins.begin(), origins.end(), "*") != origins.end();
    const std::string answer =
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ndate: "
        + metrics::http_date() + "\r\n" + (all ? "access-control-allow-origin: *\r\n" : "")
        + "content-type: application/json\r\nx-request-id: " + http::draw_request_id()
        + "\r\ncontent-length: " + std::to_string(refusal.body.size()) + "\r\n\r\n" + refusal.body;
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(answer), ignored);
  }

  /// Tells every connection and waits until all are closed; false when they are not after `patience`.
  bool wait_for_connections(void (http::connection::*tell)(), std::chrono::milliseconds patience) {
    std::unique_lock lock{mutex_};
    for (const auto& [key, weak] : connections_)
      if (const auto one = weak.lock())
        ((*one).*tell)();
    return all_closed_.wait_for(lock, patience, [this] { return connections_.empty(); });
  }

  const http_server_config config_;
  std::unique_ptr<http::background> work_;
  http::api shared_;
  http::connection_limits limits_;
  std::mutex stopping_;
  std::mutex mutex_;
  std::condition_variable all_closed_;
  std::unordered_map<const http::connection*, std::weak_ptr<http::connection>> connections_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  tcp::acceptor acceptor_;
  uint16_t port_ = 0;
  std::vector<std::thread> threads_;
};

http_server::http_server(http_server_config config, std::shared_ptr<generation_backend> backend,
                         std::shared_ptr<const openai::text_codec> codec,
                         std::shared_ptr<gateway_metrics> metrics)
    : implementation_(std::make_unique<implementation>(std::move(config), std::move(backend),
                                                       std::move(codec), std::move(metrics))) {}

http_server::~http_server() = default;

uint16_t http_server::port() const noexcept {
  return implementation_->port();
}

void http_server::set_keys(http::api_keys keys, const http::key_limit_table& limits) {
  implementation_->set_keys(std::move(keys), limits);
}

void http_server::stop(std::chrono::milliseconds patience) {
  implementation_->stop(patience);
}

} // namespace troupe
