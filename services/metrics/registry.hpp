// All metric families of one process, with the names, helps and labels of the catalogue.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "services/metrics/catalogue.hpp"

// Sources that count include the header of the metric itself; other users need not compile the library.
namespace prometheus {
class Counter;
class Gauge;
class Histogram;
class Registry;
} // namespace prometheus

namespace troupe::metrics {

using labels = std::map<std::string, std::string>;

/// The families of one process, all with the same prefix and constant labels. A request for an existing
/// metric returns it. References stay valid as long as the registry. Thread-safe.
///
/// counter(), gauge() and histogram() take names of the catalogue, without the prefix.
/// @throws std::logic_error  the catalogue has no such family of that type with these labels
class registry {
 public:
  /// @param prefix    of every name: "troupe_", "vllm:"
  /// @param constant  labels of every metric, for instance `model_name`; empty values are left out
  /// @throws std::invalid_argument  the prefix cannot begin a metric name
  explicit registry(std::string prefix = "troupe_", labels constant = {});
  ~registry();
  registry(const registry&) = delete;
  registry& operator=(const registry&) = delete;

  prometheus::Counter& counter(const std::string& name, const labels& own = {});
  prometheus::Gauge& gauge(const std::string& name, const labels& own = {});
  prometheus::Histogram& histogram(const std::string& name, const labels& own = {});

  /// Creates the series of this process's counters with labels known to the catalogue: alerts on rates need
  /// them before the first event. Families with a condition are left out.
  /// @param process  by its name in the catalogue: "gateway"
  void start(std::string_view process);

  /// Whether the names are those that vLLM's dashboards use.
  bool is_for_vllm() const;

  /// Calls `read` before each text(), to set values that are read and not counted. It runs on the thread that
  /// serves the page, one at a time, and must not block. What it reads must outlive all callers of text().
  void read_before_text(std::function<void()> read);

  /// Everything in Prometheus' text format 0.0.4.
  std::string text() const;

 private:
  std::string full_name(const family_spec& spec) const;

  std::string prefix_;
  labels constant_;
  std::unique_ptr<prometheus::Registry> families_;
  mutable std::mutex readers_mutex_;
  std::vector<std::function<void()>> readers_;
};

/// Raises a counter to a total that was counted elsewhere. A lower total changes nothing.
void raise_to(prometheus::Counter& metric, double total);

/// The Content-Type of registry::text().
inline constexpr const char* text_content_type = "text/plain; version=0.0.4; charset=utf-8";

} // namespace troupe::metrics
