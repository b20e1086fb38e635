// The access log: one line for each HTTP request that was answered.
#pragma once

#include <memory>
#include <string>

#include "services/gateway/http/access_record.hpp"
#include "services/log/log_writer.hpp"
#include "services/log/process_log.hpp"

namespace troupe {

/// Thread-safe; never waits for a disk or a pipe.
class access_log {
 public:
  /// @param target  of --access-log: a file, "-" for stderr, or "off". Requests that
  /// ended with 5xx are written to stderr in any case
  /// @throws std::runtime_error naming the file when it cannot be opened
  access_log(const std::string& target, process_log log);

  void write(const http::access_record& record);

  /// Opens the file again, after it was rotated.
  void reopen();

  /// Successful probes and scrapes are debug; 5xx and answers that broke off are warning; all else is info.
  static log_level level_of(const http::access_record& record);

 private:
  process_log log_;
  bool is_stderr_;
  std::unique_ptr<log_writer> writer_; ///< null: off
};

} // namespace troupe
