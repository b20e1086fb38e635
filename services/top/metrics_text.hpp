// Reads what /metrics answers: Prometheus' text format, version 0.0.4.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::top {

/// One line: a name, its labels and a number.
struct series {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

class metrics_text {
 public:
  metrics_text() = default;
  /// Lines that cannot be read are left out.
  explicit metrics_text(std::string_view page);

  const std::vector<series>& all() const { return all_; }

  /// The sum of all series of a family, whatever their labels; nothing where there is none.
  /// @param family  without the prefix of this page
  std::optional<double> sum(std::string_view family) const;

  /// The value of the series with this name, which no prefix stands before: "process_cpu_seconds_total".
  std::optional<double> exactly(std::string_view name) const;

  /// The series of a family.
  std::vector<const series*> of(std::string_view family) const;

 private:
  std::vector<series> all_;
  std::string prefix_; ///< "troupe_", or what --metrics-prefix says
};

} // namespace troupe::top
