// Which workers are dead to the cluster though they are connected, and whether this process stood still so
// that silence proves nothing. Pure: time is a parameter.
#pragma once

#include <optional>
#include <set>
#include <string>

#include <caf/error.hpp>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/scheduler/hang_policy.hpp"
#include "actors/scheduler/member_table.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"

namespace troupe {

class failure_detector {
 public:
  explicit failure_detector(time_point next_tick = {}) : next_tick_(next_tick) {}

  void joined(const worker_hello& hello, time_point now) { hangs_.joined(hello, now); }

  void renewed(const lease_renewal& load, time_point now) { hangs_.renewed(load, now); }

  void removed(worker_id id) { hangs_.removed(id); }

  /// The periodic tick has come. A process that did not get to run has renewals in its mailbox that it has
  /// not read: that counts against no worker.
  /// @returns how late the tick is, if it is so late that the process did not get to run; else zero
  time_point::duration tick(time_point now);

  /// Did this process not run just now, so that its peers took it for dead?
  bool was_held_up(time_point now) const;

  /// May a worker with this engine join?
  /// @errors ec::not_ready while its engine hangs
  caf::error check_engine(const worker_hello& hello);

  /// Notes that the operator has been told about the hung worker. It is forgotten when the worker's engine
  /// works again.
  /// @returns false when the operator has been told already
  bool tell_hung(worker_id id);

  struct verdict {
    worker_id worker;
    fence_reason reason = fence_reason::lease;
    std::string why; ///< the rest of a sentence that begins with the worker
  };

  /// The next member to fence: its lease has run out, or others complain of it (hang_policy::next). The
  /// cluster keeps a worker that holds what no other one has, whatever others say of it.
  std::optional<verdict> next_dead(const member_table& members, const cluster_view& view, bool is_recovering,
                                   time_point now);

 private:
  hang_policy hangs_;
  std::set<worker_id> told_hung_;
  time_point next_tick_;
  time_point held_up_until_; // until then, lost connections are blamed on this process
};

/// The event for a tick that is this late.
operator_event late_event(time_point::duration late);

/// What is said of a worker that is fenced for its engine.
std::string hang_text(const engine_progress& engine);

} // namespace troupe
