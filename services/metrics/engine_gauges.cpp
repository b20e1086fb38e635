#include "services/metrics/engine_gauges.hpp"

#include <prometheus/gauge.h>

namespace troupe::metrics {

engine_gauges::engine_gauges(registry& families, const char* engine)
    : age_(families.gauge("engine_step_age_seconds", {{"engine", engine}})),
      limit_(families.gauge("engine_step_limit_seconds", {{"engine", engine}})) {}

void engine_gauges::set(const engine_progress& now) {
  age_.Set(static_cast<double>(now.oldest_step_ms) * 1e-3);
  limit_.Set(static_cast<double>(now.step_limit_ms) * 1e-3);
}

} // namespace troupe::metrics
