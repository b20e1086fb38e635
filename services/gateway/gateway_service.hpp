// A gateway: text, HTTP, the gateway actor, and its place in the cluster.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/gateway/gateway.hpp"
#include "services/cluster/membership.hpp"
#include "services/cluster/service_site.hpp"
#include "services/gateway/access_log.hpp"
#include "services/gateway/http/http_server.hpp"
#include "services/gateway/otlp_exporter.hpp"
#include "services/metrics/endpoint.hpp"
#include "services/metrics/registry.hpp"
#include "services/model/model_source.hpp"
#include "services/options/role_options.hpp"
#include "services/startup/reload_signal.hpp"

namespace troupe {

/// The certificate of --tls-cert-file and --tls-key-file; null without them.
/// @throws option_error as http::tls_identity::load does, or when one of the flags is missing
std::shared_ptr<const http::tls_identity> read_tls_identity(const gateway_options& options);

/// Reads the files of keys and of their limits.
/// @throws std::runtime_error, option_error
std::pair<http::api_keys, http::key_limit_table> read_keys(const gateway_options& options);

/// Checks the ports, hosts, keys, certificate and files of `options`, so that mistakes are reported before a
/// model is read. A port that is free now may be in use later: listening on it then fails.
/// @throws option_error, std::runtime_error as the gateway itself would
void check_outside(const gateway_options& options);

class gateway_service {
 public:
  /// Loads tokenizer and chat template, starts the actor and listens. /ready is 503 until the cluster is.
  /// @param early     the endpoint on --management-port so far; null: there is none
  /// @param families  shown by /metrics; with several roles in one process it has the families of all
  /// @param reload    outlives this; reads files that may change again at SIGHUP
  /// @throws text::text_error, option_error, std::runtime_error (address in use)
  gateway_service(const service_site& site, const model_source& source, const model_options& model,
                  const gateway_options& options, const std::string& instruction_set,
                  std::unique_ptr<metrics::endpoint> early, std::shared_ptr<metrics::registry> families,
                  reload_signal& reload);

  /// The actor that is published under the name of the process.
  const gateway_actor& actor() const { return actor_; }

  /// The port that HTTP listens on.
  std::uint16_t http_port() const { return server_->port(); }

  /// Joins the cluster. Call once the actor is published.
  void join();

  /// /ready fails from now on. Serves on for `lame_duck`, so that load balancers notice; then accepts no more
  /// connections, gives running requests up to `patience` to end, and leaves the cluster.
  void stop(std::chrono::seconds lame_duck, std::chrono::seconds patience);

 private:
  service_site site_;
  gateway_actor actor_;
  std::shared_ptr<access_log> access_;
  std::shared_ptr<otlp_exporter> spans_; ///< null: there is no collector
  std::unique_ptr<http_server> server_;
  std::vector<reload_signal::registration> reloads_;
  std::optional<membership> membership_;
};

} // namespace troupe
