#include "actors/transport/fabric/socket.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

namespace troupe::wire {

namespace {

std::string system_error(int code) {
  return std::strerror(code);
}

void no_delay(const descriptor& socket) {
  const int yes = 1;
  // Fails only where the address family has no such option; the records are then merely slower.
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

} // namespace

descriptor::descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

descriptor& descriptor::operator=(descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

descriptor::~descriptor() {
  if (fd_ >= 0)
    ::close(fd_);
}

endpoint_name parse_endpoint(const std::string& text) {
  const auto colon = text.rfind(':');
  endpoint_name result;
  if (colon != std::string::npos) {
    result.host = text.substr(0, colon);
    if (result.host.size() >= 2 && result.host.front() == '[' && result.host.back() == ']')
      result.host = result.host.substr(1, result.host.size() - 2);
    const auto* begin = text.data() + colon + 1;
    const auto* end = text.data() + text.size();
    const auto [stop, err] = std::from_chars(begin, end, result.port);
    if (err == std::errc{} && stop == end && !result.host.empty())
      return result;
  }
  throw std::runtime_error("transport: '" + text + "' is not an endpoint of the form HOST:PORT");
}

std::string to_string(const endpoint_name& name) {
  const bool v6 = name.host.find(':') != std::string::npos;
  return (v6 ? "[" + name.host + "]" : name.host) + ":" + std::to_string(name.port);
}

std::vector<socket_address> look_up(const endpoint_name& name, bool for_listening, std::string& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (for_listening ? AI_PASSIVE : 0);
  addrinfo* list = nullptr;
  const auto status = getaddrinfo(name.host.c_str(), std::to_string(name.port).c_str(), &hints, &list);
  std::vector<socket_address> result;
  if (status != 0) {
    error = gai_strerror(status);
    return result;
  }
  for (auto* i = list; i != nullptr; i = i->ai_next) {
    auto& address = result.emplace_back();
    std::memcpy(&address.storage, i->ai_addr, i->ai_addrlen);
    address.length = i->ai_addrlen;
  }
  freeaddrinfo(list);
  return result;
}

descriptor listen_on(const endpoint_name& name) {
  std::string error = "no address";
  for (const auto& address : look_up(name, true, error)) {
    descriptor result{::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    const int yes = 1;
    if (result && setsockopt(result.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0
        && bind(result.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) == 0
        && listen(result.get(), SOMAXCONN) == 0) // the kernel takes net.core.somaxconn if that is less
      return result;
    error = system_error(errno);
  }
  throw std::runtime_error("transport: cannot listen on " + to_string(name) + ": " + error);
}

std::uint16_t bound_port(const descriptor& socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    return 0;
  if (storage.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

descriptor start_connect(const socket_address& address, std::string& error) {
  descriptor result{::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (result) {
    no_delay(result);
    if (connect(result.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) == 0
        || errno == EINPROGRESS)
      return result;
  }
  error = system_error(errno);
  return {};
}

std::string connect_error(const descriptor& socket) {
  int code = 0;
  socklen_t length = sizeof(code);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &length) != 0)
    code = errno;
  return code == 0 ? std::string{} : system_error(code);
}

descriptor accept_from(const descriptor& listener) {
  descriptor result{::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
  if (result)
    no_delay(result);
  return result;
}

std::size_t read_some(const descriptor& socket, std::span<std::byte> into, bool& closed) {
  const auto num_bytes = ::recv(socket.get(), into.data(), into.size(), 0);
  if (num_bytes > 0)
    return static_cast<std::size_t>(num_bytes);
  if (num_bytes == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
    closed = true;
  return 0;
}

std::size_t write_some(const descriptor& socket, std::span<const std::byte> bytes, bool& closed) {
  const auto num_bytes = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (num_bytes >= 0)
    return static_cast<std::size_t>(num_bytes);
  if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
    closed = true;
  return 0;
}

std::chrono::microseconds round_trip_of(const descriptor& socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (!socket || getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
    return {};
  return std::chrono::microseconds{info.tcpi_rtt};
}

} // namespace troupe::wire
