// Reads trace files, including incomplete ones.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/timeline/event.hpp"
#include "services/timeline/trace_format.hpp"

namespace troupe {

/// The events of one process.
struct trace_log {
  struct entry {
    timeline::event what;
    std::uint32_t thread = 0;
    std::string text;
  };

  std::string file;
  traced_process process;
  std::map<std::uint32_t, std::string> threads; ///< names by number
  std::vector<entry> events;                    ///< of each thread in its order
  std::uint64_t dropped = 0;                    ///< dropped for lack of room
  bool is_full = false;                         ///< it stopped at --trace-max-bytes
  bool is_cut = false;                          ///< its process was killed while writing
};

/// @throws std::runtime_error naming the file, if it is no trace or of another version
trace_log read_trace(const std::string& file);

/// All files *.trace of a folder, by name.
/// @throws std::runtime_error  there is none, or one is unusable
std::vector<trace_log> read_traces(const std::string& dir);

} // namespace troupe
