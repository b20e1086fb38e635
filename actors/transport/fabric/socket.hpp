// TCP sockets of the rendezvous: owned descriptors, listening, connecting without waiting, names to
// addresses.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/socket.h>

namespace troupe::wire {

/// A file descriptor with one owner.
class descriptor {
 public:
  descriptor() = default;

  explicit descriptor(int fd) : fd_(fd) {}

  descriptor(descriptor&& other) noexcept;
  descriptor& operator=(descriptor&& other) noexcept;
  ~descriptor();

  int get() const { return fd_; }

  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// "host:port", "[v6]:port"; the host may be a name.
struct endpoint_name {
  std::string host;
  std::uint16_t port = 0;
};

/// @errors throws `std::runtime_error` that quotes `text`
endpoint_name parse_endpoint(const std::string& text);

std::string to_string(const endpoint_name& name);

struct socket_address {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

/// Every address of a name; blocks while DNS answers, so call it on a thread that may. Empty, with `error`
/// set, when there is none.
std::vector<socket_address> look_up(const endpoint_name& name, bool for_listening, std::string& error);

/// Listens, without blocking accepts, on the first address of `name` that lets it; port 0 takes any free one.
/// @errors throws `std::runtime_error` that names the endpoint and the reason
descriptor listen_on(const endpoint_name& name);

/// The port a listening socket got.
std::uint16_t bound_port(const descriptor& socket);

/// Starts to connect; writability tells the end. Empty, with `error` set, when it fails at once.
descriptor start_connect(const socket_address& address, std::string& error);

/// How a connect that has become writable ended: empty for success.
std::string connect_error(const descriptor& socket);

/// The next connection that waits, if any.
descriptor accept_from(const descriptor& listener);

/// Reads what is there. `closed` is set at the end of the stream or on an error.
std::size_t read_some(const descriptor& socket, std::span<std::byte> into, bool& closed);

/// Writes what fits. `closed` is set on an error.
std::size_t write_some(const descriptor& socket, std::span<const std::byte> bytes, bool& closed);

/// The round trip to the other end as the kernel has measured it, smoothed; 0 where it has none.
std::chrono::microseconds round_trip_of(const descriptor& socket);

} // namespace troupe::wire
