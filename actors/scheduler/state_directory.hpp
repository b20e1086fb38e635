// The scheduler's side of its state directory: it asks the lease keeper for term and lease, and the writer to
// save. Serving waits for neither, except that a term is durable before a worker hears of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "actors/scheduler/save_schedule.hpp"
#include "actors/scheduler/scheduler.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"
#include "actors/scheduler/scheduler_storage.hpp"
#include "actors/scheduler/term_ledger.hpp"

namespace troupe {

class state_directory {
 public:
  /// What the scheduler does about it.
  struct listener {
    std::function<void(const std::optional<operator_event>&)> report;
    std::function<void(std::uint64_t above, const std::string& name)> raise_term;
    std::function<void()> confirmed;             ///< the lease is not in doubt any more
    std::function<void(const caf::error&)> lost; ///< another scheduler has taken over
    std::function<stored_cluster()> snapshot;    ///< what is to be saved now
  };

  state_directory() = default;
  /// @param terms  outlives this object
  state_directory(scheduler_interface::pointer self, const scheduler_storage& storage, term_ledger& terms,
                  listener tells);

  bool has_lease() const { return static_cast<bool>(keeper_); }

  /// Takes a term above the worker's and makes it durable.
  /// @returns the error that makes the worker ask again
  caf::error take_newer_term(const worker_hello& hello);

  /// Renews the lease when it is time.
  void renew_lease();

  /// Saves the snapshot, now or after the write that is under way.
  void save();

  /// Looks after a write that takes long or has failed.
  void check_disk();

 private:
  void lease_failed(const caf::error& error);
  void write();
  void write_next();

  scheduler_interface::pointer self_ = nullptr;
  cluster_store_writer_actor writer_;
  lease_keeper_actor keeper_;
  term_ledger* terms_ = nullptr;
  save_schedule saves_;
  listener tells_;
};

} // namespace troupe
