// Addresses of a host's name, within a deadline: the system's own look-up (getaddrinfo) has none, and cannot
// be ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <utility> // Asio of Boost 1.74 needs it before its own headers

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace troupe {

/// The name has no address, or none was found in time; what() names it.
struct lookup_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The system looks the name up on a separate thread. A look-up that outlasts its deadline continues there,
/// and later questions for the same name wait for it: there is at most one thread per name. Addresses need no
/// thread.
/// @param host  a name, or an address without brackets
/// @param port  of the endpoints
/// @throws lookup_error
boost::asio::awaitable<std::vector<boost::asio::ip::tcp::endpoint>>
look_up(std::string host, std::uint16_t port, std::chrono::steady_clock::time_point deadline);

} // namespace troupe
