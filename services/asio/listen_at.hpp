// Listening on the address that a server's --host or --metrics-host means.
#pragma once

#include <cstdint>
#include <string>

#include <boost/asio/ip/tcp.hpp>

namespace troupe {

/// The address of `host`: an address (of IPv6 with or without brackets), or a name, which is looked up while
/// the caller waits. A name's first address counts; for `localhost` and for an empty host the IPv4 address
/// comes first, since all other defaults use that one for this machine.
/// @throws boost::system::system_error when there is no such host
boost::asio::ip::tcp::endpoint listen_address(const std::string& host, std::uint16_t port);

/// Opens `acceptor`, binds it and listens. A process that was killed just before may hold the port until it
/// is gone: a port in use is tried again for up to a second.
/// @param port  0: any free one
/// @throws std::runtime_error  with the address, and `what` in front of it ("http", "metrics")
void listen_at(boost::asio::ip::tcp::acceptor& acceptor, const std::string& what, const std::string& host,
               std::uint16_t port);

} // namespace troupe
