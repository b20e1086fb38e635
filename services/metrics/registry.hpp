// All metric families of one process, in one documented place: nothing else builds names or labels.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

namespace prometheus {
class Registry;
}

namespace troupe::metrics {

using labels = std::map<std::string, std::string>;
using bucket_edges = std::vector<double>;

/// The families of one process, all with the same prefix and constant labels. Asking for a metric that exists
/// returns the existing one. References stay valid as long as the registry. Thread-safe.
class registry {
 public:
  /// @param prefix    of every name: "troupe_", "vllm:"
  /// @param constant  labels that every metric carries, for instance `model_name`
  /// @throws std::invalid_argument when the prefix cannot begin a metric name
  explicit registry(std::string prefix = "troupe_", labels constant = {});
  ~registry();
  registry(const registry&) = delete;
  registry& operator=(const registry&) = delete;

  /// @p name without the prefix, with unit and `_total` as Prometheus wants them.
  prometheus::Counter& counter(const std::string& name, const std::string& help, const labels& own = {});
  prometheus::Gauge& gauge(const std::string& name, const std::string& help, const labels& own = {});
  /// @param edges  upper bounds of the buckets, rising; +Inf is added
  prometheus::Histogram& histogram(const std::string& name, const std::string& help,
                                   const bucket_edges& edges, const labels& own = {});

  /// Everything in Prometheus' text format 0.0.4.
  std::string text() const;

 private:
  std::string prefix_;
  labels constant_;
  std::unique_ptr<prometheus::Registry> families_;
};

/// The Content-Type of registry::text().
inline constexpr const char* text_content_type = "text/plain; version=0.0.4; charset=utf-8";

} // namespace troupe::metrics
