// All processes of a cluster as one timeline, in the trace event format that Perfetto and Chrome read.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "services/timeline/trace_clocks.hpp"
#include "services/timeline/trace_reader.hpp"

namespace troupe {

struct merged_trace {
  uint64_t events = 0;  ///< that were written
  uint64_t flows = 0;   ///< arrows between processes
  uint64_t dropped = 0; ///< events that processes had no room for
};

/// Threads have slices that lie in one another; requests, sequences, micro-batches and expert batches have
/// tracks of their own; arrows lead from where a message was sent to where it arrived. Times are microseconds
/// since the first event.
merged_trace write_trace_json(std::ostream& out, const std::vector<trace_log>& logs,
                              const std::vector<process_clock>& clocks);

} // namespace troupe
