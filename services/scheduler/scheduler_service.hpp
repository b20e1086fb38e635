// The actors of a scheduler process: scheduler, activation history and rebalancer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <caf/actor_system.hpp>

#include "actors/history/history.hpp"
#include "actors/rebalancer/rebalancer.hpp"
#include "actors/rebalancer/rebalancer_metrics.hpp"
#include "actors/scheduler/scheduler.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"
#include "actors/scheduler/succession.hpp"
#include "services/options/role_options.hpp"

namespace troupe {

/// Makes the folder of --state-dir where needed and checks that it is writable. Call before opening a model.
/// @throws option_error where it is not
void check_state_dir(const scheduler_options& options);

/// Takes over the state directory. A standby waits until the active scheduler has gone.
/// @param name        of this scheduler, for the lease
/// @param on_waiting  called once, on another thread, while another scheduler is active; may be empty
/// @returns nothing when a stop signal arrives first
/// @throws std::runtime_error when the state directory cannot be used, or is in use and this is no standby
std::optional<succession> take_state(const scheduler_options& options, const std::string& name,
                                     std::function<void(const lease_holder& active)> on_waiting);

/// Checks that the file of --history, if given, belongs to the served model. Done at start, because the
/// scheduler itself learns the model from the workers.
/// @throws std::runtime_error for a file that cannot be used, option_error for another model
void check_history(const scheduler_options& options, const std::string& fingerprint);

/// Stops this process when another scheduler has taken over; its exit status will be 1.
class scheduler_service {
 public:
  /// @param metrics, planner_metrics  of scheduler and rebalancer; may be null
  /// @param from  the taken-over state directory; empty without --state-dir
  /// @throws std::runtime_error when the state directory or the file of --history cannot be used
  scheduler_service(caf::actor_system& system, const scheduler_options& options,
                    std::shared_ptr<scheduler_metrics> metrics,
                    std::shared_ptr<rebalancer_metrics> planner_metrics, std::optional<succession> from);
  ~scheduler_service();
  scheduler_service(const scheduler_service&) = delete;
  scheduler_service& operator=(const scheduler_service&) = delete;

  /// To be published as "scheduler".
  const scheduler_actor& actor() const { return actor_; }

  /// To be published as "history".
  const history_actor& history() const { return history_; }

  /// To be published as "rebalancer".
  const rebalancer_actor& rebalancer() const { return rebalancer_; }

  /// Writes the activation history and ends the actors. Idempotent.
  void stop();

 private:
  caf::actor_system& system_;
  scheduler_actor actor_;
  history_actor history_;
  rebalancer_actor rebalancer_;
};

} // namespace troupe
