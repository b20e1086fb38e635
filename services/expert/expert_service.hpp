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
#include "services/cluster/membership.hpp"
#include "services/cluster/service_site.hpp"
#include "services/model/model_source.hpp"
#include "services/options/memory_budget.hpp"
#include "services/options/role_options.hpp"
#include "services/startup/load_progress.hpp"

namespace troupe {

/// Whether other expert workers exist.
enum class expert_peers { possible, none };

class expert_service {
 public:
  /// Loads weights when the scheduler orders it. If loading fails, the process ends with an error
  /// (`stop_signal::raise_fault`) when it has no expert at all, has no peers, or its cache was damaged (the
  /// next start writes it anew). Otherwise, and without files, the worker reports the failure and the
  /// scheduler asks again.
  /// @param load    gets the progress of an order
  /// @param origin  source of the weights; `files` without peers
  /// @param budget  the rest of the process's memory limit
  expert_service(const service_site& site, const model_source& source, std::shared_ptr<compute_queue> queue,
                 const expert_options& options, expert_peers peers, weight_origin origin,
                 const memory_budget& budget, std::shared_ptr<load_progress> load,
                 std::shared_ptr<expert_host_metrics> metrics);
  ~expert_service();
  expert_service(const expert_service&) = delete;
  expert_service& operator=(const expert_service&) = delete;

  /// To be published under the worker's name.
  const expert_host_actor& actor() const { return actor_; }

  /// To be published as `weights_service` of the worker's name; null without peers.
  const weights_sender_actor& sender() const { return sender_; }

  /// The state of the worker's membership, for the probes of the process.
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
