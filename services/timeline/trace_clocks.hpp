// Converts the events of all processes to one clock.
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
  measured,  ///< all are measured, even if they may share one
};

/// How a process's clock is converted to the common one, through processes in between.
class process_clock {
 public:
  /// The common clock's time, in nanoseconds.
  std::int64_t common(std::uint64_t steady_ns) const;

  std::string how;            ///< "reference", "shared", "measured" or "wall clock"
  std::int64_t error_ns = 0;  ///< of the measurement, at best; 0: none was made
  std::int64_t offset_ns = 0; ///< this clock minus the common one, for people

  std::vector<clock_offset> steps;
};

/// One for each log. The clock of a process without messages to others is converted by the wall clock.
std::vector<process_clock> common_clocks(const std::vector<trace_log>& logs, clock_source source);

/// Round trips between two processes of the logs: of requests for a place, of sequences and their tokens, and
/// of expert batches. By the indices of both; trips[{a, b}] start at a.
struct measured_pair {
  std::size_t asks = 0;
  std::size_t answers = 0;
  std::vector<round_trip> trips;
};

std::vector<measured_pair> round_trips_in(const std::vector<trace_log>& logs);

} // namespace troupe
