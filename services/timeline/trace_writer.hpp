// Writes the timeline of this process to a file, on a thread that takes events from the rings.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "actors/timeline/ring_pool.hpp"
#include "services/log/process_log.hpp"
#include "services/options/role_options.hpp"
#include "services/timeline/trace_format.hpp"

namespace troupe {

/// The file is DIR/PROCESS.trace; if it exists, as after a restart of the process, the name gets a number
/// before the ending. It is created when tracing starts. No request waits for it: a full disk, or a file of
/// full size, logs one line and ends the tracing of this process.
class trace_writer {
 public:
  /// Does nothing without a folder. Starts tracing at once if the options give a share.
  /// @throws option_error  the folder cannot be created or written
  trace_writer(const trace_options& options, const process_log& log);

  /// Writes the remaining events.
  ~trace_writer();
  trace_writer(const trace_writer&) = delete;
  trace_writer& operator=(const trace_writer&) = delete;

 private:
  void run();
  void write_round();
  void gather(const timeline::ring_pool::thread_id& thread, std::span<const timeline::event> events);
  void add_chunk(trace_chunk what, std::uint32_t thread, const void* content, std::size_t bytes);
  void open_file();
  void put(const std::vector<char>& bytes);
  void write_out();
  void end(const char* event, const std::string& why);

  const trace_options options_;
  const process_log log_;
  timeline::ring_pool* rings_ = nullptr;
  int fd_ = -1;
  std::string path_;
  std::uint64_t written_ = 0; ///< bytes in the file
  std::vector<char> chunks_;  ///< of the current round
  std::unordered_set<std::uint32_t> named_threads_;
  bool over_ = false; ///< writing has ended
  std::mutex mutex_;
  std::condition_variable stop_asked_;
  bool stopping_ = false;
  std::thread thread_; // last: runs with everything above in place
};

} // namespace troupe
