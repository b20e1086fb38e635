// The format of trace files: a head, then chunks, each written at once. One process writes a file; if it is
// killed, its last chunk is incomplete.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// Start of a file; a JSON object follows.
struct trace_file_head {
  char magic[8] = {'T', 'R', 'O', 'U', 'P', 'E', 'T', 'L'};
  std::uint32_t version = 1; ///< of everything: head, chunks, events (actors/timeline/event.hpp)
  std::uint32_t json_bytes = 0;
};

static_assert(sizeof(trace_file_head) == 16);

enum class trace_chunk : std::uint32_t {
  events = 1,  ///< timeline::event records of one thread; a text may continue in its next chunk
  thread = 2,  ///< the name of a thread
  dropped = 3, ///< std::uint64_t: events dropped since the last such chunk
  full = 4,    ///< the last chunk: the file has its largest size
};

struct trace_chunk_head {
  trace_chunk what = trace_chunk::events;
  std::uint32_t thread = 0; ///< number of the thread in its process, from 1; 0: none
  std::uint32_t bytes = 0;  ///< after this head
  std::uint32_t unused = 0;
};

static_assert(sizeof(trace_chunk_head) == 16);

/// The process of the file: the JSON object after the head.
struct traced_process {
  std::string name;
  std::int64_t pid = 0;
  std::string host;
  std::string clock;           ///< boot and time namespace; processes with equal ones share the steady clock
  std::uint64_t steady_ns = 0; ///< the steady clock at the start of the file
  std::uint64_t unix_ns = 0;   ///< the wall clock at the same time
};

std::string to_json(const traced_process& process);

/// @throws std::runtime_error  it is something else
traced_process process_from_json(const std::string& text);

/// This process, now.
traced_process this_process(const std::string& name);

} // namespace troupe
