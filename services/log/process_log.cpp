#include "services/log/process_log.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "services/client/utf8_step.hpp"

namespace troupe {

namespace {

std::atomic<log_level> lowest_level{log_level::info};
std::atomic<log_format> line_format{log_format::text};
std::atomic<std::uint64_t> dropped_lines{0};

/// For what stands behind a message that was cut.
constexpr std::size_t room_for_fields = 1536;

void append_hex(std::string& out, unsigned value, int digits) {
  constexpr const char* alphabet = "0123456789abcdef";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    out += alphabet[value >> static_cast<unsigned>(shift) & 15U];
}

bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0);
}

/// @param quotes  '"' and '\' are escaped too, as within quotes
void append_escaped(std::string& out, std::string_view text, log_format format, bool quotes,
                    std::size_t most) {
  const std::size_t end = out.size() + most;
  while (!text.empty()) {
    if (out.size() + 12 > end) { // the longest escape, and the ellipsis
      out += "…";
      return;
    }
    const utf8_step step = first_of_utf8(text);
    const std::string_view bytes = text.substr(0, step.bytes);
    text.remove_prefix(step.bytes);
    if (!step.is_valid) {
      if (format == log_format::json) {
        out += "\\ufffd";
      } else {
        out += quotes ? "\\\\x" : "\\x";
        append_hex(out, static_cast<unsigned char>(bytes.front()), 2);
      }
    } else if (step.code_point == '\n') {
      out += "\\n";
    } else if (step.code_point == '\r') {
      out += "\\r";
    } else if (step.code_point == '\t') {
      out += "\\t";
    } else if (is_control(step.code_point)) {
      out += "\\u";
      append_hex(out, static_cast<unsigned>(step.code_point), 4);
    } else {
      if (quotes && (step.code_point == '"' || step.code_point == '\\'))
        out += '\\';
      out += bytes;
    }
  }
}

void append_quoted(std::string& out, std::string_view text, log_format format, std::size_t most) {
  out += '"';
  append_escaped(out, text, format, true, most);
  out += '"';
}

/// Whether a text needs no quotes as a value of key=value.
bool is_plain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < 0x7F && c != '"' && c != '=' && c != '\\';
  });
}

void append_double(std::string& out, double number, log_format format) {
  if (!std::isfinite(number)) { // JSON has none
    out += format == log_format::json ? "null" : "none";
    return;
  }
  std::array<char, 32> digits{};
  const int length = std::snprintf(digits.data(), digits.size(), "%.6g", number);
  out.append(digits.data(), static_cast<std::size_t>(length));
}

void append_value(std::string& out, const log_field& field, log_format format) {
  constexpr std::size_t most = 512;
  if (const auto* text = std::get_if<std::string_view>(&field.value))
    if (format == log_format::text && is_plain(*text) && text->size() <= most)
      out += *text;
    else
      append_quoted(out, *text, format, most);
  else if (const auto* whole = std::get_if<std::int64_t>(&field.value))
    out += std::to_string(*whole);
  else if (const auto* natural = std::get_if<std::uint64_t>(&field.value))
    out += std::to_string(*natural);
  else if (const auto* number = std::get_if<double>(&field.value))
    append_double(out, *number, format);
  else
    out += std::get<bool>(field.value) ? "true" : "false";
}

std::string stamp_of(std::chrono::system_clock::time_point now) {
  auto seconds = std::chrono::system_clock::to_time_t(now);
  auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 48> stamp{};
  std::size_t length = std::strftime(stamp.data(), stamp.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  length += static_cast<std::size_t>(
      std::snprintf(stamp.data() + length, stamp.size() - length, ".%03dZ", static_cast<int>(millis)));
  return {stamp.data(), length};
}

/// Whether a line can be written to stderr now without waiting.
bool has_room(int fd) {
  pollfd look{fd, POLLOUT, 0};
  return ::poll(&look, 1, 0) == 1 && (look.revents & POLLOUT) != 0;
}

bool write_line(const std::string& line) {
  if (!has_room(STDERR_FILENO))
    return false;
  ssize_t written = 0;
  do {
    written = ::write(STDERR_FILENO, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  return written >= 0;
}

} // namespace

void configure_logs(log_level level, log_format format) noexcept {
  lowest_level = level;
  line_format = format;
}

bool is_logged(log_level level) noexcept {
  return level >= lowest_level.load(std::memory_order_relaxed);
}

log_format configured_log_format() noexcept {
  return line_format.load(std::memory_order_relaxed);
}

std::string format_log_line(log_format format, std::chrono::system_clock::time_point now, log_level level,
                            std::string_view process, std::string_view event, std::string_view text,
                            log_fields fields) {
  const bool is_json = format == log_format::json;
  std::string tail;
  for (const auto& field : fields) {
    std::string one = is_json ? ",\"" : " ";
    one += field.name;
    one += is_json ? "\":" : "=";
    append_value(one, field, format);
    if (tail.size() + one.size() <= max_log_line_bytes - room_for_fields)
      tail += one;
  }
  std::string out;
  const auto name_of = std::string_view{to_string(level)};
  if (is_json) {
    out = "{\"time\":\"" + stamp_of(now) + "\",\"level\":\"";
    out += name_of;
    out += "\",\"process\":";
    append_quoted(out, process, format, 256);
    out += ",\"event\":";
    append_quoted(out, event, format, 256);
    out += ",\"message\":";
  } else {
    out = stamp_of(now) + " ";
    out += name_of;
    out += ' ';
    append_escaped(out, process, format, false, 256);
    out += ' ';
    append_escaped(out, event, format, false, 256);
    out += ':';
    if (!text.empty())
      out += ' ';
  }
  const std::size_t left = max_log_line_bytes - out.size() - tail.size() - 8; // quotes, brace, newline
  if (is_json)
    append_quoted(out, text, format, left);
  else
    append_escaped(out, text, format, false, left);
  out += tail;
  out += is_json ? "}\n" : "\n";
  return out;
}

process_log::process_log(std::string name) : name_(std::move(name)) {}

void process_log::line(std::string_view event, std::string_view text, log_fields fields) const {
  line(level_of_event(event), event, text, fields);
}

void process_log::line(log_level level, std::string_view event, std::string_view text,
                       log_fields fields) const {
  if (!is_logged(level))
    return;
  const auto format = configured_log_format();
  const auto now = std::chrono::system_clock::now();
  if (const std::uint64_t lost = dropped_lines.exchange(0); lost > 0) {
    const bool told = write_line(format_log_line(format, now, log_level::warning, name_, "log-lines-dropped",
                                                 std::to_string(lost) + " lines found no room on stderr",
                                                 {{"lines", lost}}));
    if (!told)
      dropped_lines += lost;
  }
  if (!write_line(format_log_line(format, now, level, name_, event, text, fields)))
    ++dropped_lines;
}

} // namespace troupe
