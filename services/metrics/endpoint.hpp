// The small HTTP endpoint behind --metrics-port of scheduler, attention and expert processes, and the
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
  std::uint16_t port = 0; ///< 0: any free one
};

/// The sources of /ready and /health. Called on the endpoint's thread; must not block.
struct probes {
  std::function<std::string()> why_not_ready; ///< why it cannot work now; empty or no function: it can
  std::function<std::string()> flaw{};        ///< why it must be replaced; empty or no function: it need not
  /// Progress of packing or loading weights; empty or no function: it does neither.
  std::function<std::string()> loading{};
};

/// Serves `/metrics`, `/health` (the process need not be replaced) and `/ready` (it can work) from a thread
/// of its own. Requests have a deadline and a bounded size; at most 32 clients at a time.
class endpoint {
 public:
  /// Listens at once.
  /// @throws std::runtime_error naming address and reason
  endpoint(const endpoint_config& config, std::shared_ptr<const registry> families, probes answers = {});
  /// Serves these pages instead.
  /// @throws std::runtime_error as above
  endpoint(const endpoint_config& config, std::shared_ptr<page_source> pages);
  /// Stops at once: scrapes in progress are interrupted.
  ~endpoint();
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  /// Serves these pages from now on, on the same socket. A new socket might not bind at once: a process that
  /// is being started may hold a copy of this one for a moment.
  void show(std::shared_ptr<page_source> pages);

  /// The port it listens on.
  std::uint16_t port() const noexcept;

 private:
  class listener;
  std::unique_ptr<listener> listener_;
};

} // namespace troupe::metrics
