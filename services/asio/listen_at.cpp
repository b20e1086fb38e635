#include "services/asio/listen_at.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>

#include <boost/asio/io_context.hpp>

#include "services/options/option_parser.hpp"

namespace troupe {

namespace {

using boost::asio::ip::tcp;

constexpr auto patience = std::chrono::seconds{1};
constexpr auto pause = std::chrono::milliseconds{20};

} // namespace

tcp::endpoint listen_address(const std::string& host, std::uint16_t port) {
  boost::asio::io_context io;
  tcp::resolver resolver(io);
  // Not `passive`: with it, an empty host would mean all interfaces.
  auto found = resolver.resolve(without_brackets(host), std::to_string(port), tcp::resolver::numeric_service);
  if (host.empty() || host == "localhost") {
    for (const auto& entry : found)
      if (entry.endpoint().address().is_v4())
        return entry.endpoint();
  }
  return found.begin()->endpoint();
}

void listen_at(tcp::acceptor& acceptor, const std::string& what, const std::string& host,
               std::uint16_t port) {
  try {
    const tcp::endpoint address = listen_address(host, port);
    for (const auto end = std::chrono::steady_clock::now() + patience;;) {
      acceptor.open(address.protocol());
      acceptor.set_option(boost::asio::socket_base::reuse_address(true));
      boost::system::error_code error;
      // Two processes may bind one port; only one of them can listen there.
      if (!acceptor.bind(address, error))
        acceptor.listen(boost::asio::socket_base::max_listen_connections, error);
      if (!error)
        return;
      if (error != boost::asio::error::address_in_use || std::chrono::steady_clock::now() >= end)
        throw boost::system::system_error(error);
      acceptor.close();
      std::this_thread::sleep_for(pause); // nothing tells when a port is free again
    }
  } catch (const boost::system::system_error& e) {
    throw std::runtime_error(what + ": cannot listen on " + host_port_text(host, port) + ": "
                             + e.code().message());
  }
}

} // namespace troupe
