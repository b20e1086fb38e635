// Writes all processes of a cluster as one timeline, in the trace event format of Perfetto and Chrome.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "services/timeline/trace_clocks.hpp"
#include "services/timeline/trace_reader.hpp"

namespace troupe {

struct merged_trace {
  std::uint64_t events = 0;  ///< written
  std::uint64_t flows = 0;   ///< arrows between processes
  std::uint64_t dropped = 0; ///< dropped by processes for lack of room
};

/// Threads have nested slices; requests, sequences, micro-batches and expert batches have their own tracks;
/// arrows lead from a message's sending to its arrival. Times are microseconds since the first event.
merged_trace write_trace_json(std::ostream& out, const std::vector<trace_log>& logs,
                              const std::vector<process_clock>& clocks);

} // namespace troupe
