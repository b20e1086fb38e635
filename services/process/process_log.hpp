// What a process says on stderr: one line an event, "2026-01-31T12:00:00.123Z expert-1 model-loaded: ...".
#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// Writes whole lines with one system call each, so that lines of several threads and processes do not mix.
class process_log {
 public:
  /// @param name  of the process, in every line
  explicit process_log(std::string name);

  /// @param event  stable, for searching: "model-loaded"
  void line(std::string_view event, std::string_view text) const;

 private:
  std::string name_;
};

} // namespace troupe
