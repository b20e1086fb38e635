// Converts Prometheus' text format to OpenMetrics 1.0.
#pragma once

#include <string>
#include <string_view>

namespace troupe::metrics {

inline constexpr const char* open_metrics_content_type =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether an Accept header prefers OpenMetrics by naming its type, as Prometheus' scrapes do.
bool accepts_open_metrics(std::string_view accept);

/// The same samples. Families of counters lose `_total` in HELP and TYPE, and `# EOF` ends the page.
std::string to_open_metrics(std::string_view text);

} // namespace troupe::metrics
