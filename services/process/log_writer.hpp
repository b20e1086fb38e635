// Lines that must not hold up who writes them: a file, or stderr, behind a bounded buffer and a thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "services/process/process_log.hpp"

namespace troupe {

/// Thread-safe. Lines that find no room, because the disk is full or slow or nobody reads a pipe, are dropped
/// and counted; `complaints` gets an `access-log` line about them, at most every ten seconds.
class log_writer {
 public:
  /// Lines that wait to be written.
  static constexpr size_t max_waiting_bytes = 1 << 20;

  /// @param path  a file, made where there is none and appended to; "-": stderr
  /// @throws std::runtime_error naming the path when it cannot be opened
  log_writer(std::string path, process_log complaints);
  /// Writes what waits, for at most a second.
  ~log_writer();
  log_writer(const log_writer&) = delete;
  log_writer& operator=(const log_writer&) = delete;

  /// Never waits. @param line  with its newline
  void write(std::string line);

  /// Opens the path anew, behind the lines that wait: whoever rotates files has moved it away.
  void reopen();

 private:
  class state;
  std::shared_ptr<state> state_;
};

} // namespace troupe
