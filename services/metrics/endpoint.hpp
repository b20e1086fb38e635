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

/// What /ready and /health say of a process. Called on the endpoint's thread, and must not block.
struct probes {
  std::function<std::string()> why_not_ready; ///< why it cannot do its work now; empty: it can. None: it can
  std::function<std::string()> flaw;          ///< why it is to be replaced; empty: it is not. None: it is not
};

/// Serves `/metrics`, `/health` (the process is not to be replaced) and `/ready` (it can do its work) from a
/// thread of its own. Requests are read with a deadline and a bounded size; at most 32 clients at a time.
class endpoint {
 public:
  /// Listens at once.
  /// @throws std::runtime_error naming address and reason when it cannot listen
  endpoint(const endpoint_config& config, std::shared_ptr<const registry> families, probes answers = {});
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
