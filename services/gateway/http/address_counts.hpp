// A count for each client, such as of its connections.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "services/options/network_address.hpp"

namespace troupe::http {

/// Counts by client network, up to a limit; constant time. Not thread-safe.
class address_counts {
 public:
  /// @param most  limit for each client; 0: no limit
  explicit address_counts(std::size_t most) : most_(most) {}

  /// Adds one to the count of a client.
  /// @returns false when the client is at its limit; the count stays
  bool add(const network_address& client) {
    std::size_t& count = counts_[client.client_network()];
    if (most_ > 0 && count >= most_)
      return false;
    ++count;
    return true;
  }

  /// Takes one off again.
  void remove(const network_address& client) {
    const auto found = counts_.find(client.client_network());
    if (--found->second == 0)
      counts_.erase(found);
  }

 private:
  std::size_t most_;
  std::unordered_map<network_address, std::size_t, network_address_hash> counts_;
};

} // namespace troupe::http
