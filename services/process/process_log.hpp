// What a process says on stderr: one line an event, as text or as JSON.
//
//   2026-01-31T12:00:00.123Z info expert-1 model-loaded: 3 of 3 layers seconds=1.5
//   {"time":"2026-01-31T12:00:00.123Z","level":"info","process":"expert-1","event":"model-loaded", ...}
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "services/process/log_events.hpp"

namespace troupe {

enum class log_format : uint8_t { text, json };

/// One typed value of a line, under a name. It holds views: it lives as long as the call that it is made for.
struct log_field {
  using value_type = std::variant<std::string_view, int64_t, uint64_t, double, bool>;

  log_field(std::string_view key, std::string_view text) : name(key), value(text) {}

  log_field(std::string_view key, const std::string& text) : name(key), value(std::string_view{text}) {}

  log_field(std::string_view key, const char* text) : name(key), value(std::string_view{text}) {}

  template <class Number>

  requires std::is_arithmetic_v<Number> log_field(std::string_view key, Number number)
      : name(key), value(widened(number)) {}

  std::string_view name; ///< letters, digits and '_'
  value_type value;

 private:
  template <class Number>
  static value_type widened(Number number) {
    if constexpr (std::is_same_v<Number, bool>) {
      return value_type{number};
    } else if constexpr (std::is_floating_point_v<Number>) {
      return value_type{static_cast<double>(number)};
    } else if constexpr (std::is_signed_v<Number>) {
      return value_type{static_cast<int64_t>(number)};
    } else {
      return value_type{static_cast<uint64_t>(number)};
    }
  }
};

/// The fields of a line: a list in braces, or a vector. It holds no copies.
class log_fields : public std::span<const log_field> {
 public:
  log_fields() = default;

  log_fields(std::initializer_list<log_field> list) // NOLINT(google-explicit-constructor)
      : span(list.begin(), list.size()) {}

  log_fields(const std::vector<log_field>& list) : span(list) {} // NOLINT(google-explicit-constructor)
};

/// What lines look like, and which of them are written; of the whole process. Call it before threads start.
/// @param level   lines below it are not written
void configure_logs(log_level level, log_format format) noexcept;

/// Whether lines of this level are written.
bool is_logged(log_level level) noexcept;

/// The format that `configure_logs` has set; text without it.
log_format configured_log_format() noexcept;

/// One line, with its newline, and at most `max_log_line_bytes` long: a longer message is cut, and ends in
/// "…". Control characters, C1's among them, and malformed UTF-8 are escaped; in JSON each malformed byte is
/// U+FFFD.
std::string format_log_line(log_format format, std::chrono::system_clock::time_point now, log_level level,
                            std::string_view process, std::string_view event, std::string_view text,
                            log_fields fields = {});

/// What one write(2) to a pipe puts there as a whole (PIPE_BUF of Linux).
inline constexpr size_t max_log_line_bytes = 4096;

/// Writes whole lines with one system call each, so that lines of several threads and processes do not mix. A
/// line for which stderr has no room now, such as a full pipe, is dropped instead of waited for; the next one
/// that is written says how many were.
class process_log {
 public:
  /// @param name  of the process, in every line
  explicit process_log(std::string name);

  /// With the level that `log_events.hpp` gives the event.
  /// @param event  stable, for searching: "model-loaded"
  void line(std::string_view event, std::string_view text, log_fields fields = {}) const;

  void line(log_level level, std::string_view event, std::string_view text, log_fields fields = {}) const;

  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

} // namespace troupe
