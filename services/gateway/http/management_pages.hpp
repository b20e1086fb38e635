// What the management port shows: the pages of probes and of Prometheus.
#pragma once

#include "services/gateway/http/api.hpp"
#include "services/metrics/page_source.hpp"

namespace troupe::http {

/// /health, /ready, /metrics and /version, as the API's own port has them.
class management_pages final : public metrics::page_source {
 public:
  /// @param shared  outlives this
  explicit management_pages(api& shared) : shared_(shared) {}

  boost::asio::awaitable<metrics::page> answer(std::string path) override;

 private:
  api& shared_;
};

} // namespace troupe::http
