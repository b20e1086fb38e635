#include "services/client/name_lookup.hpp"

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <fcntl.h>
#include <netdb.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace troupe {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

/// One look-up, shared by its thread and its waiters.
class lookup {
 public:
  lookup() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (event_ < 0)
      throw std::system_error(errno, std::generic_category(), "eventfd");
  }

  ~lookup() { ::close(event_); }

  lookup(const lookup&) = delete;
  lookup& operator=(const lookup&) = delete;

  /// Blocks for as long as the system takes.
  void run(const std::string& host) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* first = nullptr;
    const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &first);
    const std::string reason = error == EAI_SYSTEM ? std::generic_category().message(errno)
                               : error != 0        ? ::gai_strerror(error)
                                                   : "";
    std::vector<tcp::endpoint> endpoints;
    for (const addrinfo* one = error == 0 ? first : nullptr; one != nullptr; one = one->ai_next) {
      if (one->ai_family == AF_INET || one->ai_family == AF_INET6) {
        tcp::endpoint& endpoint = endpoints.emplace_back();
        endpoint.resize(one->ai_addrlen);
        std::memcpy(endpoint.data(), one->ai_addr, one->ai_addrlen);
      }
    }
    if (error == 0)
      ::freeaddrinfo(first);
    const std::lock_guard lock(mutex_);
    endpoints_ = std::move(endpoints);
    reason_ = endpoints_.empty() && reason.empty() ? "it has no address" : reason;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event_, &one, sizeof one); // the first: there is room
  }

  /// A descriptor of the caller's that can be read from, and never is, once there is a result; -1: no
  /// descriptor is left.
  int new_event() const { return ::fcntl(event_, F_DUPFD_CLOEXEC, 0); }

  /// @throws lookup_error
  std::vector<tcp::endpoint> result(const std::string& host, std::uint16_t port) const {
    const std::lock_guard lock(mutex_);
    if (!reason_.empty())
      throw lookup_error("the name '" + host + "' cannot be looked up: " + reason_);
    std::vector<tcp::endpoint> endpoints = endpoints_;
    for (tcp::endpoint& endpoint : endpoints)
      endpoint.port(port);
    return endpoints;
  }

 private:
  const int event_;
  mutable std::mutex mutex_;
  std::vector<tcp::endpoint> endpoints_;
  std::string reason_; ///< why there is no address
};

/// Look-ups whose threads run.
struct running_lookups {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<lookup>> by_host;
};

/// @throws std::system_error where there is no thread or no descriptor left
std::shared_ptr<lookup> running_lookup(const std::string& host) {
  // Shared with the threads, which may outlive the end of main.
  static const auto all = std::make_shared<running_lookups>();
  const std::lock_guard lock(all->mutex);
  if (const auto found = all->by_host.find(host); found != all->by_host.end())
    return found->second;
  auto fresh = std::make_shared<lookup>();
  std::thread([owner = all, fresh, host] {
    fresh->run(host);
    const std::lock_guard done(owner->mutex);
    owner->by_host.erase(host);
  }).detach();
  all->by_host[host] = fresh; // its thread waits for the mutex before it takes it out
  return fresh;
}

} // namespace

asio::awaitable<std::vector<tcp::endpoint>> look_up(std::string host, std::uint16_t port,
                                                    std::chrono::steady_clock::time_point deadline) {
  boost::system::error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (!error) {
    std::vector<tcp::endpoint> endpoints;
    endpoints.emplace_back(address, port);
    co_return endpoints;
  }
  std::shared_ptr<lookup> running;
  try {
    running = running_lookup(host);
  } catch (const std::system_error& failure) {
    throw lookup_error("the name '" + host + "' cannot be looked up: " + failure.what());
  }
  const int descriptor = running->new_event();
  if (descriptor < 0)
    throw lookup_error("the name '" + host + "' cannot be looked up: no descriptor is left");
  const auto executor = co_await asio::this_coro::executor;
  // Shared with the timer's handler, which may run behind the end of this.
  const auto event = std::make_shared<asio::posix::stream_descriptor>(executor, descriptor);
  asio::steady_timer timer(executor, deadline);
  timer.async_wait([event](const boost::system::error_code& is_cancelled) {
    if (!is_cancelled) {
      boost::system::error_code ignored;
      event->cancel(ignored);
    }
  });
  co_await event->async_wait(asio::posix::stream_descriptor::wait_read,
                             asio::redirect_error(asio::use_awaitable, error));
  timer.cancel();
  if (error)
    throw lookup_error("the name '" + host + "' was not looked up in time");
  co_return running->result(host, port);
}

} // namespace troupe
