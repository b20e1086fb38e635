// Keeps the timeline of this process in a file: a thread that takes events from the rings and appends them.
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
#include "services/options/role_options.hpp"
#include "services/process/process_log.hpp"
#include "services/timeline/trace_format.hpp"

namespace troupe {

/// The file is DIR/PROCESS.trace, or with a number before the ending where there is one already, as of a
/// process that was started again. It is made when tracing starts. No request waits for it: a disk that is
/// full, or a file that has its full size, is one line of the log and ends the tracing of this process.
class trace_writer {
 public:
  /// Does nothing without a folder. Traces from now on where the options name a share.
  /// @throws option_error when the folder cannot be made or written to
  trace_writer(const trace_options& options, const process_log& log);

  /// Writes what there is.
  ~trace_writer();
  trace_writer(const trace_writer&) = delete;
  trace_writer& operator=(const trace_writer&) = delete;

 private:
  void run();
  void write_round();
  void gather(const timeline::ring_pool::thread_id& thread, std::span<const timeline::event> events);
  void add_chunk(trace_chunk what, uint32_t thread, const void* content, size_t bytes);
  void open_file();
  void put(const std::vector<char>& bytes);
  void write_out();
  void end(const char* event, const std::string& why);

  const trace_options options_;
  const process_log log_;
  timeline::ring_pool* rings_ = nullptr;
  int fd_ = -1;
  std::string path_;
  uint64_t written_ = 0;     ///< bytes in the file
  std::vector<char> chunks_; ///< of this round
  std::unordered_set<uint32_t> named_threads_;
  bool over_ = false; ///< nothing is written any more
  std::mutex mutex_;
  std::condition_variable stop_asked_;
  bool stopping_ = false;
  std::thread thread_; // last: runs with everything above in place
};

} // namespace troupe
