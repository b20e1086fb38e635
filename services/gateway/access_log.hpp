// One line in the log for each HTTP request that was answered.
#pragma once

#include <memory>
#include <string>

#include "services/gateway/http/access_record.hpp"
#include "services/process/log_writer.hpp"
#include "services/process/process_log.hpp"

namespace troupe {

/// Thread-safe; never waits for a disk or a pipe.
class access_log {
 public:
  /// @param target  of --access-log: a file, "-" for stderr, or "off"; what ended with 5xx is written to
  /// stderr all the same
  /// @throws std::runtime_error naming the file when it cannot be opened
  access_log(const std::string& target, process_log log);

  void write(const http::access_record& record);

  /// For rotated files.
  void reopen();

  /// Good answers to probes and scrapes are debug, 5xx and answers that broke off warning.
  static log_level level_of(const http::access_record& record);

 private:
  process_log log_;
  bool is_stderr_;
  std::unique_ptr<log_writer> writer_; ///< null: off
};

} // namespace troupe
