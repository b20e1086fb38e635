// The scheduler's term: which workers know it, when its lease on the state directory is renewed, and when
// that lease is in doubt. Pure: time is a parameter.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include <caf/error.hpp>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/scheduler/member_table.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"

namespace troupe {

class term_ledger {
 public:
  explicit term_ledger(std::uint64_t term = 0) : term_(term) {}

  std::uint64_t term() const { return term_; }

  // Workers.

  /// Has the worker seen a newer term, or this one from another scheduler?
  bool is_ahead(const worker_hello& hello) const;

  /// The worker joins in this term.
  void welcome(worker_id id);

  /// Takes the term above `above`. The present workers know it.
  /// @param name  of the worker that has seen `above`
  operator_event raise(std::uint64_t above, const std::string& name, std::set<worker_id> present);

  // The lease.

  /// @returns false while a newer term is being taken already
  bool begin_raise();

  /// The attempt to take a newer term has ended, well or not.
  void end_raise() { is_raising_ = false; }

  /// @returns whether the lease is to be renewed now
  bool begin_renewal(time_point now);
  /// @returns the event when the renewal that is under way takes longer than the lease lasts; once
  std::optional<operator_event> check_renewal(time_point now);
  /// @returns whether the lease was in doubt
  bool renewed();
  /// A renewal, or the attempt to take a newer term, has failed for another reason than a successor.
  /// @returns the event, once until the next success
  std::optional<operator_event> failed(const caf::error& error);

  /// The renewal that is under way has failed.
  void end_renewal() { renewing_since_.reset(); }

  /// The process stood still, and another scheduler may have taken over: nothing is published until the lease
  /// has been renewed, or for defaults::reconnect_max where the disk does not answer.
  void doubt(time_point now) { doubted_until_ = now + defaults::reconnect_max; }

  bool is_doubtful(time_point now) const { return doubted_until_ && now < *doubted_until_; }

 private:
  std::uint64_t term_;
  std::set<worker_id> welcomed_; // in this term
  bool is_raising_ = false;
  std::optional<time_point> renewing_since_;
  time_point renew_next_;
  std::optional<time_point> doubted_until_;
  bool has_told_ = false; // that the lease could not be renewed
};

} // namespace troupe
