// The address that a server's --host or --metrics-host means.
#pragma once

#include <cstdint>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "services/options/option_parser.hpp"

namespace troupe {

/// Where a server listens that was told `host`: an address (of IPv6 with or without brackets), or a name,
/// which is looked up while the caller waits. A name's first address is taken; of localhost's, and of no host
/// at all, the IPv4 one where there is one, since that is what everything else here takes for this machine.
/// @throws boost::system::system_error when there is no such host
inline boost::asio::ip::tcp::endpoint listen_address(const std::string& host, uint16_t port) {
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  tcp::resolver resolver(io);
  // Not `passive`, with which no host at all would mean the whole network.
  auto found = resolver.resolve(without_brackets(host), std::to_string(port), tcp::resolver::numeric_service);
  if (host.empty() || host == "localhost") {
    for (const auto& entry : found) {
      if (entry.endpoint().address().is_v4()) {
        return entry.endpoint();
      }
    }
  }
  return found.begin()->endpoint();
}

} // namespace troupe
