// After a restart or a standstill of the scheduler: which workers are expected back, and for how long they
// are waited for. Pure: time is a parameter.
#pragma once

#include <optional>
#include <vector>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/scheduler/member_table.hpp"

namespace troupe {

class recovery_watch {
 public:
  /// Waits for the workers of the scheduler before.
  void restore(std::vector<worker_address> workers, time_point now);

  /// Waits for a worker that has lost its connection while this process stood still.
  void expect(const worker_address& worker, time_point now);

  /// A worker joins. A recovery that is under way lasts longer, up to its limit: where one worker comes back,
  /// others may follow.
  /// @param is_first  there are no members and no view yet. If the worker was in the cluster before, a
  /// recovery begins
  /// @returns the workers that were missed and are back
  std::vector<worker_id> joined(const worker_hello& hello, bool is_first, time_point now);

  /// Are workers waited for? A recovery ends when all that are expected are back, or when its time is over.
  bool is_recovering(time_point now);

  /// Attention workers that had not come back when the recovery ended. What they compute is not given to
  /// others before its limit. Expert hosts are replaced at once, and take back what they bring if they come
  /// late.
  const std::vector<worker_address>& missed() const { return missed_; }

  /// @returns the missed workers, once the recovery's limit has passed; they are forgotten
  std::vector<worker_address> give_up(time_point now);

 private:
  void begin(time_point now);

  std::optional<time_point> end_;
  time_point limit_; // nothing extends a recovery beyond it
  std::vector<worker_address> expected_;
  std::vector<worker_address> missed_;
  bool knows_workers_ = false; // then the recovery ends when all that are expected are back
};

} // namespace troupe
