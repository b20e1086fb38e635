// The scheduler and what it says of itself, and beside it the activation history and the rebalancer.
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

/// Takes the state directory over, which a standby waits for until it may, or until this process is told to
/// stop.
/// @param name        of this scheduler, for others to read
/// @param on_waiting  told once, on another thread, when another scheduler is active; may be empty
/// @returns nothing when told to stop
/// @throws std::runtime_error when the state directory cannot be used, or is in use and this is no standby
std::optional<succession> take_state(const scheduler_options& options, const std::string& name,
                                     std::function<void(const lease_holder& active)> on_waiting);

/// The file of --history, if there is one, is read and must be of the model that is served: one clear error
/// at start. The scheduler itself learns the model from the workers.
/// @throws std::runtime_error for a file that cannot be used, option_error for another model
void check_history(const scheduler_options& options, const std::string& fingerprint);

/// Stops this process when another scheduler has taken over; its exit status will be 1.
class scheduler_service {
 public:
  /// @param planner_metrics  the rebalancer's; may be null, as `metrics` may
  /// @param from  of the state directory that the options name; nothing where they name none
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

  /// Ends the actors; what has been counted is written before. Idempotent.
  void stop();

 private:
  caf::actor_system& system_;
  scheduler_actor actor_;
  history_actor history_;
  rebalancer_actor rebalancer_;
};

} // namespace troupe
