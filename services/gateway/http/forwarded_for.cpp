#include "services/gateway/http/forwarded_for.hpp"

#include <algorithm>
#include <optional>

namespace troupe::http {

namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Some proxies append the port: "192.0.2.1:4711", "[2001:db8::1]:4711".
std::string_view without_port(std::string_view entry) {
  const std::size_t colon = entry.rfind(':');
  const bool v4 = std::count(entry.begin(), entry.end(), ':') == 1;
  const bool bracketed = entry.starts_with('[') && !entry.ends_with(']');
  return colon != std::string_view::npos && (v4 || bracketed) ? entry.substr(0, colon) : entry;
}

} // namespace

network_address forwarded_client(const network_address& peer, std::string_view forwarded,
                                 const address_ranges& trusted) {
  network_address client = peer;
  for (std::size_t end = forwarded.size(); trusted.contains(client);) {
    const std::string_view before = forwarded.substr(0, end);
    const std::size_t comma = before.rfind(',');
    const std::string_view entry = before.substr(comma == std::string_view::npos ? 0 : comma + 1);
    const auto address = parse_network_address(without_port(trimmed(entry)));
    if (!address)
      break;
    client = *address;
    if (comma == std::string_view::npos)
      break;
    end = comma;
  }
  return client;
}

} // namespace troupe::http
