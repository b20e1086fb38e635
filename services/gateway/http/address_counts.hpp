// How many of something each client has.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "services/options/network_address.hpp"

namespace troupe::http {

/// Counts by client network, up to a limit; constant time. Not thread-safe.
class address_counts {
 public:
  /// @param most  of one client; 0: no limit
  explicit address_counts(size_t most) : most_(most) {}

  /// One more for this client; false, and nothing is counted, when it has as many as it may.
  bool add(const network_address& client) {
    size_t& count = counts_[client.client_network()];
    if (most_ > 0 && count >= most_)
      return false;
    ++count;
    return true;
  }

  /// One that was added is over.
  void remove(const network_address& client) {
    const auto found = counts_.find(client.client_network());
    if (--found->second == 0)
      counts_.erase(found);
  }

  size_t num_clients() const noexcept { return counts_.size(); }

 private:
  size_t most_;
  std::unordered_map<network_address, size_t, network_address_hash> counts_;
};

} // namespace troupe::http
