#include "services/client/terminal_text.hpp"

#include "services/client/utf8_step.hpp"

namespace troupe {

namespace {

/// C0, DEL and C1; marks and overrides of the direction of writing; separators of lines and paragraphs.
bool is_control(char32_t code_point) {
  const auto is_in = [code_point](char32_t first, char32_t last) {
    return code_point >= first && code_point <= last;
  };
  return code_point < 0x20 || is_in(0x7F, 0x9F) || is_in(0x200E, 0x200F) || is_in(0x2028, 0x202E)
         || is_in(0x2066, 0x2069);
}

} // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const utf8_step step = first_of_utf8(text);
    if (step.is_valid && !is_control(step.code_point))
      result += text.substr(0, step.bytes);
    else
      result += '?';
    text.remove_prefix(step.bytes);
  }
  return result;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (; !text.empty(); ++columns)
    text.remove_prefix(first_of_utf8(text).bytes);
  return columns;
}

std::string_view first_columns(std::string_view text, std::size_t columns) {
  std::string_view rest = text;
  for (; columns > 0 && !rest.empty(); --columns)
    rest.remove_prefix(first_of_utf8(rest).bytes);
  return text.substr(0, text.size() - rest.size());
}

std::string excerpt(std::string_view text, std::size_t columns) {
  return printable(first_columns(text, columns));
}

std::string counted(std::size_t number, const std::string& thing) {
  return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
}

} // namespace troupe
