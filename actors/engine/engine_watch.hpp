// Whether an engine still computes: the age of its oldest step, against what its steps take. Kept by the
// actor that submits the steps, since an engine that hangs cannot say so. Pure: time is a parameter.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

#include "actors/cluster/cluster_messages.hpp"

namespace troupe {

class engine_watch {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::steady_clock::duration;

  /// The engine gets a step. @param step  names it; no two at a time have the same
  void begin(uint64_t step, time_point now);

  /// The engine has given the step back; unknown ones are ignored.
  void end(uint64_t step, time_point now);

  /// To be asked at every renewal.
  engine_progress look(time_point now);

  /// How old a step may get: max(defaults::engine_stall, defaults::engine_stall_factor × the longest of
  /// late).
  duration limit() const;

 private:
  /// Whoever keeps the watch is running. It has not for longer than a lease: then the whole process stood
  /// still, the answers of its engine wait to be read, and that time is not counted against the engine.
  void awake(time_point now);

  std::map<uint64_t, time_point> begun_;
  uint64_t steps_ = 0;
  duration longest_{}; ///< of late: forgotten by a thousandth with each step
  time_point awake_{}; ///< when it last was
};

} // namespace troupe
