// Metrics of the engines of both kinds of workers.
#pragma once

#include <cstdint>

#include "actors/protocol/cluster_messages.hpp"
#include "services/metrics/registry.hpp"

namespace troupe::metrics {

inline double seconds_of(std::uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

class engine_gauges {
 public:
  /// @param engine  the label: "attention" or "expert"; one process of `troupe serve` has both
  engine_gauges(registry& families, const char* engine);

  void set(const engine_progress& now);

 private:
  prometheus::Gauge& age_;
  prometheus::Gauge& limit_;
};

} // namespace troupe::metrics
