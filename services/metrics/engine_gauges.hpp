// How an engine gets on, as gauges.
#pragma once

#include "actors/cluster/cluster_messages.hpp"
#include "services/metrics/registry.hpp"

namespace troupe::metrics {

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
