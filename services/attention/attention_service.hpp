// An attention worker: the attention side's weights, the actor that batches over them, its place in the
// cluster, and its reports to the activation history.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "actors/attention/attention_metrics.hpp"
#include "actors/attention/attention_worker.hpp"
#include "actors/engine/compute_queue.hpp"
#include "actors/history/activation_reporter.hpp"
#include "services/cluster/membership.hpp"
#include "services/cluster/service_site.hpp"
#include "services/model/model_source.hpp"
#include "services/options/memory_budget.hpp"
#include "services/options/role_options.hpp"
#include "services/startup/load_progress.hpp"

namespace troupe {

class attention_service {
 public:
  /// Loads the weights.
  /// @param budget  what is left of the process' memory limit; weights, KV cache and rows are taken from it
  /// @param load    told how far loading is
  /// @throws model::model_error, std::bad_alloc, std::runtime_error (no KV block fits --kv-cache-memory)
  attention_service(const service_site& site, const model_source& source,
                    std::shared_ptr<compute_queue> queue, const model_options& model,
                    const attention_options& options, memory_budget& budget,
                    std::shared_ptr<load_progress> load, std::shared_ptr<attention_metrics> metrics);

  /// To be published under the worker's name.
  const attention_worker_actor& actor() const { return actor_; }

  /// Tells the process' probes how the worker's membership stands.
  const std::shared_ptr<member_pulse>& pulse() const { return pulse_; }

  /// Joins the cluster. Call once the actor is published.
  void join();

  void stop(std::chrono::milliseconds patience);

 private:
  service_site site_;
  activation_reporter_config reports_;
  activation_reporter_actor reporter_; ///< from join on; ends with the worker
  attention_worker_actor actor_;
  const std::shared_ptr<member_pulse> pulse_ = std::make_shared<member_pulse>();
  std::optional<membership> membership_;
};

} // namespace troupe
