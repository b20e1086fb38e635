// An expert worker: the experts' weights, the actor that serves them, and its place in the cluster.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "actors/engine/compute_queue.hpp"
#include "actors/expert/expert_host.hpp"
#include "actors/expert/expert_host_metrics.hpp"
#include "services/options/role_options.hpp"
#include "services/process/membership.hpp"
#include "services/process/model_source.hpp"
#include "services/process/service_site.hpp"

namespace troupe {

/// Whether others may host what this worker cannot.
enum class expert_peers { possible, none };

class expert_service {
 public:
  /// Weights are loaded when the scheduler orders it, with progress in the log. The process exits with an
  /// error (`stop_signal::raise_fault`) when nothing loads, no peer could host instead, or its cache was
  /// damaged (the next start writes it anew); otherwise it reports the failure and is asked again.
  expert_service(const service_site& site, const model_source& source, std::shared_ptr<compute_queue> queue,
                 const expert_options& options, expert_peers peers,
                 std::shared_ptr<expert_host_metrics> metrics);

  /// To be published under the worker's name.
  const expert_host_actor& actor() const { return actor_; }

  /// Joins the cluster. Call once the actor is published.
  void join();

  void stop(std::chrono::milliseconds patience);

 private:
  service_site site_;
  expert_host_actor actor_;
  std::optional<membership> membership_;
};

} // namespace troupe
