#include "services/options/network_address.hpp"

#include <algorithm>
#include <charconv>

#include <arpa/inet.h>

#include "services/options/option_parser.hpp"

namespace troupe {

namespace {

constexpr std::array<std::uint8_t, 12> v4_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

bool same_prefix(const network_address& a, const network_address& b, unsigned bits) noexcept {
  const std::size_t whole = bits / 8;
  if (!std::equal(a.bytes.begin(), a.bytes.begin() + static_cast<std::ptrdiff_t>(whole), b.bytes.begin()))
    return false;
  const unsigned rest = bits % 8;
  return rest == 0 || (a.bytes[whole] >> (8 - rest)) == (b.bytes[whole] >> (8 - rest));
}

} // namespace

bool network_address::is_v4() const noexcept {
  return std::equal(v4_prefix.begin(), v4_prefix.end(), bytes.begin());
}

std::string network_address::text() const {
  char buffer[INET6_ADDRSTRLEN] = {};
  const bool v4 = is_v4();
  inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? bytes.data() + 12 : bytes.data(), buffer, sizeof buffer);
  return buffer;
}

network_address network_address::client_network() const noexcept {
  if (is_v4())
    return *this;
  network_address network;
  std::copy_n(bytes.begin(), 8, network.bytes.begin());
  return network;
}

std::size_t network_address_hash::operator()(const network_address& address) const noexcept {
  std::uint64_t hash = 0xCBF29CE484222325; // FNV-1a
  for (const std::uint8_t byte : address.bytes)
    hash = (hash ^ byte) * 0x100000001B3;
  return hash;
}

std::optional<network_address> parse_network_address(std::string_view text) {
  const std::string plain = without_brackets(std::string(text));
  network_address result;
  if (inet_pton(AF_INET6, plain.c_str(), result.bytes.data()) == 1)
    return result;
  std::copy(v4_prefix.begin(), v4_prefix.end(), result.bytes.begin());
  if (plain.size() == text.size() && inet_pton(AF_INET, plain.c_str(), result.bytes.data() + 12) == 1)
    return result;
  return std::nullopt;
}

address_ranges::address_ranges(const std::vector<std::string>& entries, const std::string& source) {
  for (const std::string& entry : entries) {
    const std::size_t slash = entry.find('/');
    const auto address = parse_network_address(std::string_view(entry).substr(0, slash));
    const unsigned most = address && address->is_v4() ? 32 : 128;
    unsigned bits = most;
    bool good = address.has_value();
    if (good && slash != std::string::npos) {
      const char* end = entry.data() + entry.size();
      const auto read = std::from_chars(entry.data() + slash + 1, end, bits);
      good = read.ec == std::errc{} && read.ptr == end && bits <= most;
    }
    if (!good) {
      throw option_error(source + ": '" + entry
                         + "' is no address or network; write 192.0.2.1, 10.0.0.0/8 or fd00::/8");
    }
    ranges_.push_back({*address, bits + 128 - most});
  }
}

bool address_ranges::contains(const network_address& address) const noexcept {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const range& one) { return same_prefix(one.network, address, one.bits); });
}

} // namespace troupe
