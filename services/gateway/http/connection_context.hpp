// What the connections of a server share, beside the API that they serve.
#pragma once

#include <atomic>
#include <cstddef>

#include "services/gateway/http/api_keys.hpp"
#include "services/gateway/http/client_requests.hpp"
#include "services/gateway/http/current_value.hpp"
#include "services/gateway/http/gateway_metrics.hpp"
#include "services/gateway/http/http_server.hpp"
#include "services/gateway/http/tls_identity.hpp"

namespace troupe::http {

struct connection_context {
  const http_server_config& config;
  const route_table& routes;
  gateway_metrics& metrics;
  current_value<api_keys> keys{config.keys};
  current_value<tls_identity> tls{config.tls};                     ///< null: connections are plain TCP
  client_requests clients{config.limits.max_connections_per_peer}; ///< behind trusted proxies
  std::atomic<std::size_t> buffered_body_bytes{0}; ///< of all bodies that are being read or held
};

} // namespace troupe::http
