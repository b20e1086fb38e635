// The log of a process on stderr: one line per event, as text or as JSON.
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

#include "services/log/log_events.hpp"

namespace troupe {

enum class log_format : std::uint8_t { text, json };

/// A named, typed value of a line. Holds views, so it is valid only during the call that it is passed to.
struct log_field {
  using value_type = std::variant<std::string_view, std::int64_t, std::uint64_t, double, bool>;

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
    if constexpr (std::is_same_v<Number, bool>)
      return value_type{number};
    else if constexpr (std::is_floating_point_v<Number>)
      return value_type{static_cast<double>(number)};
    else if constexpr (std::is_signed_v<Number>)
      return value_type{static_cast<std::int64_t>(number)};
    else
      return value_type{static_cast<std::uint64_t>(number)};
  }
};

/// The fields of a line, from a list in braces or a vector, without copies.
class log_fields : public std::span<const log_field> {
 public:
  log_fields() = default;

  log_fields(std::initializer_list<log_field> list) // NOLINT(google-explicit-constructor)
      : span(list.begin(), list.size()) {}

  log_fields(const std::vector<log_field>& list) : span(list) {} // NOLINT(google-explicit-constructor)
};

/// Sets level and format for the whole process. Call it before threads start.
/// @param level   lower levels are not written
void configure_logs(log_level level, log_format format) noexcept;

/// Whether lines of this level are written.
bool is_logged(log_level level) noexcept;

/// The format that `configure_logs` has set; text by default.
log_format configured_log_format() noexcept;

/// One line, with its newline, and at most `max_log_line_bytes` long: a longer message is cut, and ends in
/// "…". Control characters, C1's among them, and malformed UTF-8 are escaped; in JSON each malformed byte is
/// U+FFFD.
std::string format_log_line(log_format format, std::chrono::system_clock::time_point now, log_level level,
                            std::string_view process, std::string_view event, std::string_view text,
                            log_fields fields = {});

/// The largest atomic write(2) to a pipe (PIPE_BUF of Linux).
inline constexpr std::size_t max_log_line_bytes = 4096;

/// Writes each line with one system call, so that lines of several threads and processes do not mix. When
/// stderr has no room (a full pipe), lines are dropped; the next line reports how many.
class process_log {
 public:
  /// @param name  of the process, for every line
  explicit process_log(std::string name);

  /// Writes the line with the event's level in `log_events.hpp`.
  /// @param event  stable, for searching: "model-loaded"
  void line(std::string_view event, std::string_view text, log_fields fields = {}) const;

  void line(log_level level, std::string_view event, std::string_view text, log_fields fields = {}) const;

  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

} // namespace troupe
