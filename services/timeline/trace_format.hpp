// What a trace file is: a head, then chunks, each written whole. One process writes it; a process that is
// killed leaves its last chunk cut.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// A file begins with this, the version, and the size of the JSON object behind them.
struct trace_file_head {
  char magic[8] = {'T', 'R', 'O', 'U', 'P', 'E', 'T', 'L'};
  uint32_t version = 1; ///< of everything: head, chunks, events (actors/timeline/event.hpp)
  uint32_t json_bytes = 0;
};

static_assert(sizeof(trace_file_head) == 16);

enum class trace_chunk : uint32_t {
  events = 1,  ///< timeline::event records of one thread; a text may go on in its next chunk
  thread = 2,  ///< the name of a thread
  dropped = 3, ///< uint64_t: events that found no room since the last such chunk
  full = 4,    ///< nothing follows: the file is as large as it may be
};

struct trace_chunk_head {
  trace_chunk what = trace_chunk::events;
  uint32_t thread = 0; ///< number of the thread in its process, from 1; 0: none
  uint32_t bytes = 0;  ///< behind this head
  uint32_t unused = 0;
};

static_assert(sizeof(trace_chunk_head) == 16);

/// Whose file it is: the JSON object behind the head.
struct traced_process {
  std::string name;
  int64_t pid = 0;
  std::string host;
  std::string clock;      ///< processes with the same one share the steady clock: boot and time namespace
  uint64_t steady_ns = 0; ///< the steady clock when the file was begun
  uint64_t unix_ns = 0;   ///< the wall clock at the same time
};

std::string to_json(const traced_process& process);

/// @throws std::runtime_error when it is something else
traced_process process_from_json(const std::string& text);

/// This process, now.
traced_process this_process(const std::string& name);

} // namespace troupe
