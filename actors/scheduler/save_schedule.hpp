// When the published placement is written to the state directory: one write at a time, and after a failure
// none for a while. Pure: time is a parameter.
#pragma once

#include <optional>

#include <caf/error.hpp>

#include "actors/scheduler/member_table.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"

namespace troupe {

class save_schedule {
 public:
  /// There is something newer to save.
  /// @returns whether to write it now; otherwise a later `begin_next` returns true
  bool begin(time_point now);

  /// @returns whether to write now what has become newer, or could not be saved
  bool begin_next(time_point now) { return is_unsaved_ && begin(now); }

  void succeeded();
  /// @returns the event; none when a successor has the state directory
  std::optional<operator_event> failed(const caf::error& error, time_point now);
  /// @returns the event when the disk is slow, once until the next success
  std::optional<operator_event> check(time_point now);

 private:
  std::optional<time_point> saving_since_; // a write is under way
  bool is_unsaved_ = false;
  time_point not_before_; // after a failure
  bool has_told_slow_ = false;
};

} // namespace troupe
