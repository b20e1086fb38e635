#include "services/gateway/http/http_server.hpp"

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "services/asio/listen_at.hpp"
#include "services/gateway/http/background.hpp"
#include "services/gateway/http/connections.hpp"
#include "services/gateway/http/management_pages.hpp"
#include "services/gateway/http/timed_codec.hpp"
#include "services/metrics/endpoint.hpp"

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

/// Pause after a failed accept (out of descriptors).
constexpr auto accept_pause = std::chrono::milliseconds{100};
/// Time for connections to end their answers with an error, after the patience of stop() is over.
constexpr auto farewell_patience = std::chrono::seconds{1};
/// Time for connections to end once they are cut.
constexpr auto cut_patience = std::chrono::seconds{1};

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
  implementation(http_server_config config, const http::route_table& routes,
                 std::shared_ptr<generation_backend> backend, std::shared_ptr<control_backend> control,
                 std::shared_ptr<const openai::text_codec> codec, std::shared_ptr<gateway_metrics> metrics,
                 std::unique_ptr<metrics::endpoint> management)
      : config_(std::move(config)),
        work_(std::make_unique<http::background>(config_.text_threads, config_.limits.max_background_bytes,
                                                 config_.limits.text, metrics)),
        health_({config_.limits.text + config_.limits.text_margin, config_.limits.text_stall,
                 config_.limits.late_loop, config_.limits.beat},
                [this] { return work_->now(); }),
        shared_{config_,
                std::move(backend),
                std::move(control),
                http::timed_codec(std::move(codec), metrics),
                metrics,
                *work_,
                health_},
        context_{config_, routes, *shared_.metrics},
        connections_(shared_, context_),
        io_(static_cast<int>(config_.threads)),
        guard_(io_.get_executor()),
        acceptor_(asio::make_strand(io_)) {
    validate(config_);
    if (config_.tls)
      shared_.metrics->certificate_used(config_.tls->not_after());
    auto pages = std::make_shared<http::management_pages>(shared_, routes);
    management_ = std::move(management);
    if (management_)
      management_->show(std::move(pages));
    else if (config_.management_port)
      management_ = std::make_unique<metrics::endpoint>(
          metrics::endpoint_config{config_.management_host, *config_.management_port}, std::move(pages));
    listen();
    health_.watch(io_);
    asio::co_spawn(acceptor_.get_executor(), accept(), asio::detached);
    for (unsigned i = 0; i < config_.threads; ++i)
      threads_.emplace_back([this] { io_.run(); });
  }

  ~implementation() {
    stop(std::chrono::milliseconds{0});
    management_.reset();
    // Coroutines that wait for background work must end before the I/O that they use.
    work_.reset();
  }

  std::uint16_t port() const noexcept { return port_; }

  std::uint16_t management_port() const noexcept { return management_ ? management_->port() : 0; }

  void leave() noexcept { shared_.draining = true; }

  void set_keys(http::api_keys keys, const http::key_limit_table& limits) {
    shared_.usage.replace(limits, keys.names());
    context_.keys.set(std::make_shared<const http::api_keys>(std::move(keys)));
  }

  void set_certificate(std::shared_ptr<const http::tls_identity> identity) {
    shared_.metrics->certificate_used(identity->not_after());
    context_.tls.set(std::move(identity));
  }

  void stop(std::chrono::milliseconds patience) {
    const std::lock_guard one_at_a_time{stopping_};
    if (threads_.empty())
      return;
    shared_.draining = true;
    stopped_ = true;
    connections_.close();
    asio::post(acceptor_.get_executor(), [this] {
      error_code ignored;
      acceptor_.close(ignored);
    });
    if (!connections_.tell_all(&http::connection::drain, patience)
        && !connections_.tell_all(&http::connection::hurry, farewell_patience))
      connections_.tell_all(&http::connection::cut, cut_patience);
    work_->stop();
    io_.stop();
    for (std::thread& thread : threads_)
      thread.join();
    threads_.clear();
  }

 private:
  void listen() {
    listen_at(acceptor_, "http", config_.host, config_.port);
    port_ = acceptor_.local_endpoint().port();
  }

  task<void> accept() {
    while (!stopped_) {
      tcp::socket socket{asio::make_strand(io_)};
      error_code error;
      co_await acceptor_.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
      if (stopped_)
        break;
      if (error) {
        asio::steady_timer pause{acceptor_.get_executor(), accept_pause};
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      } else {
        connections_.admit(std::move(socket));
      }
    }
  }

  const http_server_config config_;
  std::unique_ptr<http::background> work_;
  http::health health_;
  http::api shared_;
  http::connection_context context_;
  http::connections connections_;
  std::atomic<bool> stopped_{false};
  std::mutex stopping_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  tcp::acceptor acceptor_;
  std::uint16_t port_ = 0;
  std::vector<std::thread> threads_;
  std::unique_ptr<metrics::endpoint> management_;
};

http_server::http_server(http_server_config config, const http::route_table& routes,
                         std::shared_ptr<generation_backend> backend,
                         std::shared_ptr<control_backend> control,
                         std::shared_ptr<const openai::text_codec> codec,
                         std::shared_ptr<gateway_metrics> metrics,
                         std::unique_ptr<metrics::endpoint> management)
    : implementation_(std::make_unique<implementation>(std::move(config), routes, std::move(backend),
                                                       std::move(control), std::move(codec),
                                                       std::move(metrics), std::move(management))) {}

http_server::~http_server() = default;

std::uint16_t http_server::port() const noexcept {
  return implementation_->port();
}

std::uint16_t http_server::management_port() const noexcept {
  return implementation_->management_port();
}

void http_server::leave() noexcept {
  implementation_->leave();
}

void http_server::set_keys(http::api_keys keys, const http::key_limit_table& limits) {
  implementation_->set_keys(std::move(keys), limits);
}

void http_server::set_certificate(std::shared_ptr<const http::tls_identity> identity) {
  implementation_->set_certificate(std::move(identity));
}

void http_server::stop(std::chrono::milliseconds patience) {
  implementation_->stop(patience);
}

} // namespace troupe
