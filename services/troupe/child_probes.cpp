#include "services/troupe/child_probes.hpp"

#include <algorithm>
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
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "services/client/http_client.hpp"

namespace troupe {

namespace asio = boost::asio;

namespace {

/// @returns why the process is unhealthy; empty: it is healthy
/// @throws http_error without an answer in time
asio::awaitable<std::string> ask(const server_url& server, std::chrono::milliseconds patience) {
  const auto answer = co_await exchange(server, "GET", "/health", {}, patience);
  if (answer.status == 200)
    co_return std::string{};
  const std::string why = "/health is " + std::to_string(answer.status) + ": " + answer.body;
  co_return why.substr(0, why.find('\n'));
}

} // namespace

probe_limits limits_for(std::chrono::seconds hung_after) {
  probe_limits limits;
  limits.interval = limits.patience = std::min(limits.interval, std::chrono::milliseconds{hung_after} / 2);
  limits.failures =
      static_cast<std::uint32_t>(std::max<std::int64_t>(1, hung_after / (limits.interval + limits.patience)));
  return limits;
}

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
    const server_url server = parse_url("http://" + address);
    std::uint32_t failures = 0;
    while (true) {
      pause.expires_after(limits_.interval);
      co_await pause.async_wait(asio::use_awaitable);
      if (!is_watched(name, pid))
        co_return;
      std::string why;
      try {
        why = co_await ask(server, limits_.patience);
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
