// Writes lines to a file or stderr without blocking the caller, with a bounded buffer and a thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "services/log/process_log.hpp"

namespace troupe {

/// Thread-safe. When the buffer is full (full or slow disk, unread pipe), further lines are dropped and
/// counted; `complaints` gets an `access-log` line about them, at most every ten seconds.
class log_writer {
 public:
  /// Capacity of the buffer.
  static constexpr std::size_t max_waiting_bytes = 1 << 20;

  /// @param path  a file to create or append to; "-": stderr
  /// @throws std::runtime_error naming the path when it cannot be opened
  log_writer(std::string path, process_log complaints);
  /// Writes the buffered lines, for at most a second.
  ~log_writer();
  log_writer(const log_writer&) = delete;
  log_writer& operator=(const log_writer&) = delete;

  /// Never blocks. @param line  with its newline
  void write(std::string line);

  /// Reopens the path after writing the buffered lines. Call after log rotation.
  void reopen();

 private:
  class state;
  std::shared_ptr<state> state_;
};

} // namespace troupe
