// A gateway: text, HTTP, the gateway actor, and its place in the cluster.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/gateway/gateway.hpp"
#include "services/gateway/access_log.hpp"
#include "services/gateway/http/http_server.hpp"
#include "services/gateway/otlp_exporter.hpp"
#include "services/metrics/registry.hpp"
#include "services/options/role_options.hpp"
#include "services/process/membership.hpp"
#include "services/process/model_source.hpp"
#include "services/process/reload_signal.hpp"
#include "services/process/service_site.hpp"

namespace troupe {

/// The certificate of --tls-cert-file and --tls-key-file; null without them.
/// @throws option_error as http::tls_identity::load does, or when one of the flags is missing
std::shared_ptr<const http::tls_identity> read_tls_identity(const gateway_options& options);

class gateway_service {
 public:
  /// Loads tokenizer and chat template, starts the actor and listens. /ready is 503 until the cluster is.
  /// @param families  what /metrics shows; in one process the other roles' families are among them
  /// @param reload    outlives this: at SIGHUP files that may change are read again
  /// @throws text::text_error, option_error, std::runtime_error (address in use)
  gateway_service(const service_site& site, const model_source& source, const model_options& model,
                  const gateway_options& options, const std::string& instruction_set,
                  std::shared_ptr<metrics::registry> families, reload_signal& reload);

  /// To be published under the worker's name.
  const gateway_actor& actor() const { return actor_; }

  /// The port that HTTP listens on.
  uint16_t http_port() const { return server_->port(); }

  /// Joins the cluster. Call once the actor is published.
  void join();

  /// Is not ready any more, but serves on for `lame_duck`, so that load balancers hear of it; then accepts no
  /// more connections, lets running requests end for as long as `patience`, and leaves.
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
