#include "services/metrics/registry.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <prometheus/check_names.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace troupe::metrics {

namespace {

constexpr const char* vllm_prefix = "vllm:";

/// @throws std::logic_error  the family is of another type, or has other labels
const family_spec& checked(const std::string& name, family_type type, const labels& own) {
  const family_spec& spec = spec_of(name);
  if (spec.type != type)
    throw std::logic_error("metrics: " + name + " is a " + name_of(spec.type) + ", not a " + name_of(type));
  const bool fits = own.size() == spec.labels.size()
                    && std::all_of(spec.labels.begin(), spec.labels.end(),
                                   [&own](const label_spec& label) { return own.count(label.name) > 0; });
  if (!fits)
    throw std::logic_error("metrics: " + name + " has other labels in the catalogue");
  return spec;
}

/// All combinations of the label values in the catalogue; none if a label has no known value.
std::vector<labels> known_labels(const family_spec& spec) {
  std::vector<labels> result{{}};
  for (const label_spec& label : spec.labels) {
    std::vector<labels> longer;
    for (const labels& shorter : result)
      for (const char* value : label.values) {
        longer.push_back(shorter);
        longer.back()[label.name] = value;
      }
    result = std::move(longer);
  }
  return result;
}

} // namespace

registry::registry(std::string prefix, labels constant)
    : prefix_(std::move(prefix)),
      constant_(std::move(constant)),
      families_(std::make_unique<prometheus::Registry>()) {
  if (!prometheus::CheckMetricName(prefix_ + "x"))
    throw std::invalid_argument("metrics prefix '" + prefix_
                                + "': expected letters, digits, '_' and ':', not starting with a digit");
  std::erase_if(constant_, [](const auto& label) { return label.second.empty(); });
}

registry::~registry() = default;

std::string registry::full_name(const family_spec& spec) const {
  return spec.has_prefix ? prefix_ + spec.name : spec.name;
}

prometheus::Counter& registry::counter(const std::string& name, const labels& own) {
  const family_spec& spec = checked(name, family_type::counter, own);
  return prometheus::BuildCounter()
      .Name(full_name(spec))
      .Help(spec.help)
      .Labels(constant_)
      .Register(*families_)
      .Add(own);
}

prometheus::Gauge& registry::gauge(const std::string& name, const labels& own) {
  const family_spec& spec = checked(name, family_type::gauge, own);
  return prometheus::BuildGauge()
      .Name(full_name(spec))
      .Help(spec.help)
      .Labels(constant_)
      .Register(*families_)
      .Add(own);
}

prometheus::Histogram& registry::histogram(const std::string& name, const labels& own) {
  const family_spec& spec = checked(name, family_type::histogram, own);
  return prometheus::BuildHistogram()
      .Name(full_name(spec))
      .Help(spec.help)
      .Labels(constant_)
      .Register(*families_)
      .Add(own, *spec.edges);
}

void registry::start(std::string_view process) {
  for (const process_families& one : catalogue())
    if (process == one.process)
      for (const family_spec& spec : one.families)
        if (spec.type == family_type::counter && spec.condition[0] == '\0')
          for (const labels& own : known_labels(spec))
            counter(spec.name, own);
}

bool registry::is_for_vllm() const {
  return prefix_ == vllm_prefix;
}

void registry::read_before_text(std::function<void()> read) {
  const std::lock_guard guard{readers_mutex_};
  readers_.push_back(std::move(read));
}

std::string registry::text() const {
  {
    const std::lock_guard guard{readers_mutex_};
    for (const auto& read : readers_)
      read();
  }
  std::vector<prometheus::MetricFamily> collected = families_->Collect();
  if (is_for_vllm())
    for (const process_families& one : catalogue())
      for (const family_spec& spec : one.families)
        if (spec.vllm_name[0] != '\0')
          if (const auto found =
                  std::find_if(collected.begin(), collected.end(),
                               [&](const auto& family) { return family.name == full_name(spec); });
              found != collected.end()) {
            prometheus::MetricFamily alias = *found;
            alias.name = prefix_ + spec.vllm_name;
            collected.push_back(std::move(alias));
          }
  return prometheus::TextSerializer{}.Serialize(collected);
}

void raise_to(prometheus::Counter& metric, double total) {
  if (const double more = total - metric.Value(); more > 0)
    metric.Increment(more);
}

} // namespace troupe::metrics
