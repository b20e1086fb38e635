// Reads trace files as they were written, cut ones too.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/timeline/event.hpp"
#include "services/timeline/trace_format.hpp"

namespace troupe {

/// What one process has written.
struct trace_log {
  struct entry {
    timeline::event what;
    uint32_t thread = 0;
    std::string text;
  };

  std::string file;
  traced_process process;
  std::map<uint32_t, std::string> threads; ///< names by number
  std::vector<entry> events;               ///< of each thread in its order
  uint64_t dropped = 0;                    ///< events that found no room
  bool is_full = false;                    ///< it stopped at --trace-max-bytes
  bool is_cut = false;                     ///< its process was killed while it wrote
};

/// @throws std::runtime_error naming the file, for what is no trace or of another version
trace_log read_trace(const std::string& file);

/// All files *.trace of a folder, by name.
/// @throws std::runtime_error when there is none, or one is not usable
std::vector<trace_log> read_traces(const std::string& dir);

} // namespace troupe
