#include "services/troupe/child_probes.hpp"

#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace troupe {

namespace asio = boost::asio;
namespace beast = boost::beast;

namespace {

/// Why the answer is not the one of a process that works; empty: it is.
/// @throws boost::system::system_error when there is no answer in time
asio::awaitable<std::string> ask(const std::string& address, std::chrono::milliseconds patience) {
  const auto colon = address.rfind(':');
  auto host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[')
    host = host.substr(1, host.size() - 2);
  const asio::ip::tcp::endpoint to{asio::ip::make_address(host),
                                   static_cast<uint16_t>(std::stoul(address.substr(colon + 1)))};
  beast::tcp_stream stream{co_await asio::this_coro::executor};
  stream.expires_after(patience);
  co_await stream.async_connect(to, asio::use_awaitable);
  beast::http::request<beast::http::empty_body> question{beast::http::verb::get, "/health", 11};
  question.set(beast::http::field::host, address);
  question.set(beast::http::field::connection, "close");
  co_await beast::http::async_write(stream, question, asio::use_awaitable);
  beast::flat_buffer buffer;
  beast::http::response_parser<beast::http::string_body> answer;
  answer.body_limit(64 << 10);
  co_await beast::http::async_read(stream, buffer, answer, asio::use_awaitable);
  std::string why;
  if (answer.get().result() != beast::http::status::ok) {
    why = "/health is " + std::to_string(answer.get().result_int()) + ": " + answer.get().body();
    why = why.substr(0, why.find('\n'));
  }
  co_return why;
}

} // namespace

class child_probes::asker {
 public:
  asker(probe_limits limits,
        std::function<void(const std::string& name, pid_t pid, const std::string& why)> on_hung)
      : limits_(limits), on_hung_(std::move(on_hung)) {}

  ~asker() {
    io_.stop();
    if (thread_.joinable())
      thread_.join();
  }

  asker(const asker&) = delete;
  asker& operator=(const asker&) = delete;

  void watch(const std::string& name, pid_t pid, const std::string& address) {
    {
      const std::lock_guard lock{mutex_};
      watched_[name] = pid;
    }
    asio::co_spawn(io_, look_after(name, pid, address), asio::detached);
    if (!thread_.joinable())
      thread_ = std::thread([this] { io_.run(); });
  }

  void forget(const std::string& name) {
    const std::lock_guard lock{mutex_};
    watched_.erase(name);
  }

 private:
  bool is_watched(const std::string& name, pid_t pid) const {
    const std::lock_guard lock{mutex_};
    const auto found = watched_.find(name);
    return found != watched_.end() && found->second == pid;
  }

  asio::awaitable<void> look_after(std::string name, pid_t pid, std::string address) {
    asio::steady_timer pause{io_};
    uint32_t failures = 0;
    while (true) {
      pause.expires_after(limits_.interval);
      co_await pause.async_wait(asio::use_awaitable);
      if (!is_watched(name, pid))
        co_return;
      std::string why;
      try {
        why = co_await ask(address, limits_.patience);
      } catch (const std::exception& error) {
        why = std::string("no answer from /health: ") + error.what();
      }
      failures = why.empty() ? 0 : failures + 1;
      if (failures < limits_.failures)
        continue;
      if (is_watched(name, pid))
        on_hung_(name, pid, why);
      co_return;
    }
  }

  const probe_limits limits_;
  const std::function<void(const std::string& name, pid_t pid, const std::string& why)> on_hung_;
  mutable std::mutex mutex_;
  std::map<std::string, pid_t> watched_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::thread thread_;
};

child_probes::child_probes(
    probe_limits limits,
    std::function<void(const std::string& name, pid_t pid, const std::string& why)> on_hung)
    : asker_(std::make_unique<asker>(limits, std::move(on_hung))) {}

child_probes::~child_probes() = default;

void child_probes::watch(const std::string& name, pid_t pid, const std::string& address) {
  asker_->watch(name, pid, address);
}

void child_probes::forget(const std::string& name) {
  asker_->forget(name);
}

} // namespace troupe
