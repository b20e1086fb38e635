// What the engines of both kinds of workers report.
#pragma once

#include <cstdint>

#include "actors/cluster/cluster_messages.hpp"
#include "services/metrics/registry.hpp"

namespace troupe::metrics {

inline double seconds_of(uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

class engine_gauges {
 public:
  /// @param engine  the label: "attention" or "expert", which are both in one process of `troupe serve`
  engine_gauges(registry& families, const char* engine);

  void set(const engine_progress& now);

 private:
  prometheus::Gauge& age_;
  prometheus::Gauge& limit_;
};

} // namespace troupe::metrics
