// Puts the events of all processes on one clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "services/timeline/clock_offset.hpp"
#include "services/timeline/trace_reader.hpp"

namespace troupe {

/// Where offsets come from.
enum class clock_source {
  automatic, ///< processes of one boot of one machine share a clock; others are measured
  measured,  ///< all are measured, though they may share one
};

/// How a process's clock is brought to the common one, step by step over processes in between.
class process_clock {
 public:
  /// The common clock's time, in nanoseconds.
  int64_t common(uint64_t steady_ns) const;

  std::string how;       ///< "reference", "shared", "measured" or "wall clock"
  int64_t error_ns = 0;  ///< of what was measured, at best; 0: there is none
  int64_t offset_ns = 0; ///< this clock minus the common one, for people

  std::vector<clock_offset> steps;
};

/// One for each log. The clock of a process to which no message leads is taken by the wall clock.
std::vector<process_clock> common_clocks(const std::vector<trace_log>& logs, clock_source source);

/// Round trips between two processes of the logs: of requests for a place, of sequences and their tokens, and
/// of expert batches. By the indices of both; trips[{a, b}] are asked by a.
struct measured_pair {
  size_t asks = 0;
  size_t answers = 0;
  std::vector<round_trip> trips;
};

std::vector<measured_pair> round_trips_in(const std::vector<trace_log>& logs);

} // namespace troupe
