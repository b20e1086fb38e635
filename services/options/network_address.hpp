// IP addresses and ranges of them, as flags and headers write them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// An IPv6 address in network byte order; an IPv4 address as the IPv6 one that stands for it
/// (::ffff:a.b.c.d).
struct network_address {
  std::array<std::uint8_t, 16> bytes{};

  bool operator==(const network_address&) const = default;

  bool is_v4() const noexcept;
  /// "192.0.2.1", or "2001:db8::1" without brackets.
  std::string text() const;
  /// What is counted as one client: an IPv4 address, or an IPv6 network of 64 bits, of which a single host
  /// may use every address.
  network_address client_network() const noexcept;
};

struct network_address_hash {
  std::size_t operator()(const network_address& address) const noexcept;
};

/// The address that `text` is, of IPv6 with or without brackets; nothing when it is none.
std::optional<network_address> parse_network_address(std::string_view text);

/// Some addresses and networks.
class address_ranges {
 public:
  /// None.
  address_ranges() = default;
  /// @param entries  addresses, or networks such as 10.0.0.0/8 and fd00::/8
  /// @throws option_error naming `source` and the entry that is none of these
  address_ranges(const std::vector<std::string>& entries, const std::string& source);

  bool contains(const network_address& address) const noexcept;

 private:
  struct range {
    network_address network;
    unsigned bits; ///< of the prefix, 0 to 128
  };

  std::vector<range> ranges_;
};

} // namespace troupe
