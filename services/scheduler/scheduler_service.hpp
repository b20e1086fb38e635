// The scheduler and what it says of itself, and the activation history beside it.
#pragma once

#include <memory>
#include <string>

#include <caf/actor_system.hpp>

#include "actors/history/history.hpp"
#include "actors/scheduler/scheduler.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"
#include "services/options/role_options.hpp"

namespace troupe {

/// The file of --history, if there is one, is read and must be of the model that is served: one clear error
/// at start. The scheduler itself learns the model from the workers.
/// @throws std::runtime_error for a file that cannot be used, option_error for another model
void check_history(const scheduler_options& options, const std::string& fingerprint);

class scheduler_service {
 public:
  /// @throws std::runtime_error when the state directory or the file of --history cannot be used
  scheduler_service(caf::actor_system& system, const scheduler_options& options,
                    std::shared_ptr<scheduler_metrics> metrics);
  ~scheduler_service();
  scheduler_service(const scheduler_service&) = delete;
  scheduler_service& operator=(const scheduler_service&) = delete;

  /// To be published as "scheduler".
  const scheduler_actor& actor() const { return actor_; }

  /// To be published as "history".
  const history_actor& history() const { return history_; }

  /// Ends the actors; what has been counted is written before. Idempotent.
  void stop();

 private:
  caf::actor_system& system_;
  scheduler_actor actor_;
  history_actor history_;
};

} // namespace troupe
