// The small HTTP endpoint behind --metrics-port of scheduler, attention and expert processes, and behind the
// gateway's --management-port.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "services/metrics/registry.hpp"

namespace troupe::metrics {

class page_source;

struct endpoint_config {
  std::string host = "127.0.0.1";
  uint16_t port = 0; ///< 0: any free one
};

/// Serves `/metrics`, `/health` (the process lives) and `/ready` (it can do its work) from a thread of its
/// own. Requests are read with a deadline and a bounded size; at most 32 clients at a time.
class endpoint {
 public:
  /// Listens at once. @p why_not_ready says why /ready is to be refused, or nothing; it is called on the
  /// endpoint's thread and must not block.
  /// @throws std::runtime_error naming address and reason when it cannot listen
  endpoint(const endpoint_config& config, std::shared_ptr<const registry> families,
           std::function<std::string()> why_not_ready);
  /// Shows these pages instead.
  /// @throws std::runtime_error as above
  endpoint(const endpoint_config& config, std::shared_ptr<page_source> pages);
  /// Stops at once: scrapes in progress are cut.
  ~endpoint();
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  /// The port it listens on.
  uint16_t port() const noexcept;

 private:
  class listener;
  std::unique_ptr<listener> listener_;
};

} // namespace troupe::metrics
