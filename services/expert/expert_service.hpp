// An expert worker: the experts' weights, the actor that serves them, and its place in the cluster.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "actors/engine/compute_queue.hpp"
#include "actors/expert/expert_host.hpp"
#include "actors/expert/expert_host_metrics.hpp"
#include "actors/expert/weights_fetcher.hpp"
#include "actors/expert/weights_sender.hpp"
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
  /// damaged (the next start writes it anew); otherwise it reports the failure and is asked again, and so it
  /// does where it has no files.
  /// @param origin  where weights come from; `files` where there are no peers
  expert_service(const service_site& site, const model_source& source, std::shared_ptr<compute_queue> queue,
                 const expert_options& options, expert_peers peers, weight_origin origin,
                 std::shared_ptr<expert_host_metrics> metrics);
  ~expert_service();
  expert_service(const expert_service&) = delete;
  expert_service& operator=(const expert_service&) = delete;

  /// To be published under the worker's name.
  const expert_host_actor& actor() const { return actor_; }

  /// To be published as `weights_service` of the worker's name; null where there are no peers.
  const weights_sender_actor& sender() const { return sender_; }

  /// Tells the process' probes how the worker's membership stands.
  const std::shared_ptr<member_pulse>& pulse() const { return pulse_; }

  /// Joins the cluster. Call once the actor is published.
  void join();

  void stop(std::chrono::milliseconds patience);

 private:
  service_site site_;
  expert_host_actor actor_;
  weights_sender_actor sender_;
  weights_fetcher_actor fetcher_; ///< null where experts come from files
  const std::shared_ptr<member_pulse> pulse_ = std::make_shared<member_pulse>();
  std::optional<membership> membership_;
};

} // namespace troupe
