// The pages of the management port: for probes, Prometheus and operators.
#pragma once

#include "services/gateway/http/api.hpp"
#include "services/metrics/page_source.hpp"

namespace troupe::http {

/// Serves all pages that are not for clients, and /version, as on the API's own port. The port asks for no
/// key, therefore it has no commands that change anything.
class management_pages final : public metrics::page_source {
 public:
  /// @param shared, routes  outlive this
  management_pages(api& shared, const route_table& routes) : shared_(shared), routes_(routes) {}

  boost::asio::awaitable<metrics::page> answer(std::string path, std::string query) override;

 private:
  api& shared_;
  const route_table& routes_;
};

} // namespace troupe::http
