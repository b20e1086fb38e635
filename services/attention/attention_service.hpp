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
#include "services/options/role_options.hpp"
#include "services/process/membership.hpp"
#include "services/process/model_source.hpp"
#include "services/process/service_site.hpp"

namespace troupe {

class attention_service {
 public:
  /// Loads the weights, with progress in the log.
  /// @throws model::model_error, std::bad_alloc, std::runtime_error (no KV block fits the budget)
  attention_service(const service_site& site, const model_source& source,
                    std::shared_ptr<compute_queue> queue, const model_options& model,
                    const attention_options& options, std::shared_ptr<attention_metrics> metrics);

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
