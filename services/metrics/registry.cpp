#include "services/metrics/registry.hpp"

#include <stdexcept>
#include <utility>

#include <prometheus/check_names.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace troupe::metrics {

registry::registry(std::string prefix, labels constant)
    : prefix_(std::move(prefix)),
      constant_(std::move(constant)),
      families_(std::make_unique<prometheus::Registry>()) {
  if (!prometheus::CheckMetricName(prefix_ + "x"))
    throw std::invalid_argument("metrics prefix '" + prefix_
                                + "': expected letters, digits, '_' and ':', not starting with a digit");
}

registry::~registry() = default;

prometheus::Counter& registry::counter(const std::string& name, const std::string& help, const labels& own) {
  return prometheus::BuildCounter()
      .Name(prefix_ + name)
      .Help(help)
      .Labels(constant_)
      .Register(*families_)
      .Add(own);
}

prometheus::Gauge& registry::gauge(const std::string& name, const std::string& help, const labels& own) {
  return prometheus::BuildGauge()
      .Name(prefix_ + name)
      .Help(help)
      .Labels(constant_)
      .Register(*families_)
      .Add(own);
}

prometheus::Histogram& registry::histogram(const std::string& name, const std::string& help,
                                           const bucket_edges& edges, const labels& own) {
  return prometheus::BuildHistogram()
      .Name(prefix_ + name)
      .Help(help)
      .Labels(constant_)
      .Register(*families_)
      .Add(own, edges);
}

std::string registry::text() const {
  return prometheus::TextSerializer{}.Serialize(families_->Collect());
}

} // namespace troupe::metrics
