// Counts the requests in progress of each client behind trusted proxies.
#pragma once

#include <memory>
#include <mutex>

#include "services/gateway/http/address_counts.hpp"

namespace troupe::http {

/// Limits the requests that one client has in progress. Thread-safe, constant time.
class client_requests {
 public:
  /// A request in progress, until it is released. The counter outlives it.
  using ticket = std::shared_ptr<void>;

  /// @param most  requests of each client; 0: no limit
  explicit client_requests(std::size_t most) : counts_(most) {}

  /// @returns null when the client is at its limit
  ticket begin(const network_address& client) {
    const std::lock_guard lock{mutex_};
    if (!counts_.add(client))
      return nullptr;
    return {this, [client](client_requests* self) {
              const std::lock_guard ending{self->mutex_};
              self->counts_.remove(client);
            }};
  }

 private:
  std::mutex mutex_;
  address_counts counts_;
};

} // namespace troupe::http
