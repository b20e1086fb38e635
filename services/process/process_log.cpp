#include "services/process/process_log.hpp"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <utility>

#include <unistd.h>

namespace troupe {

process_log::process_log(std::string name) : name_(std::move(name)) {}

void process_log::line(std::string_view event, std::string_view text) const {
  auto now = std::chrono::system_clock::now();
  auto seconds = std::chrono::system_clock::to_time_t(now);
  auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char stamp[48];
  size_t length = std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
  length += static_cast<size_t>(
      std::snprintf(stamp + length, sizeof stamp - length, ".%03dZ ", static_cast<int>(millis)));
  std::string out(stamp, length);
  out += name_;
  out += ' ';
  out += event;
  out += ": ";
  for (char c : text) {
    out += c == '\n' ? ' ' : c;
  }
  out += '\n';
  (void)!write(STDERR_FILENO, out.data(), out.size());
}

} // namespace troupe
