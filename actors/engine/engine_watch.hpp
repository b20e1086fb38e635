// Detects an engine that hangs: compares the age of its oldest step with the usual duration of its steps.
// Kept by the actor that submits the steps, since a hung engine cannot report itself. Pure: time is a
// parameter.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

#include "actors/protocol/cluster_messages.hpp"

namespace troupe {

class engine_watch {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::steady_clock::duration;

  /// The engine gets a step. @param step  number of the step; unique among the steps in flight
  void begin(std::uint64_t step, time_point now);

  /// The engine has finished the step; unknown numbers are ignored.
  void end(std::uint64_t step, time_point now);

  /// Progress so far; to be called at every renewal.
  engine_progress look(time_point now);

  /// Age at which a step counts as hung: max(defaults::engine_stall, defaults::engine_stall_factor × the
  /// longest recent step).
  duration limit() const;

 private:
  /// Call when the watching actor runs. If the previous call is more than a lease ago, the whole process was
  /// stalled; that time is not charged to the engine.
  void awake(time_point now);

  std::map<std::uint64_t, time_point> begun_;
  std::uint64_t steps_ = 0;
  duration longest_{}; ///< recent maximum: decays by a thousandth with each step
  time_point awake_{}; ///< time of the last call of `awake`
};

} // namespace troupe
