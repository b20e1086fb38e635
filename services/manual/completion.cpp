#include "services/manual/completion.hpp"

#include <algorithm>
#include <string_view>

#include "services/client/terminal_text.hpp"

namespace troupe::manual {

std::string words_behind_program(const command_description& command) {
  const std::size_t blank = command.name.find(' ');
  return blank == std::string::npos ? "" : command.name.substr(blank + 1);
}

std::string identifier_of(const std::string& name) {
  std::string result = name;
  std::replace_if(
      result.begin(), result.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
  return result;
}

std::string short_help(const std::string& help) {
  constexpr std::size_t most = 72;
  std::string line = help.substr(0, help.find_first_of(";\n"));
  if (columns_of(line) > most) {
    // One more: a blank may follow the last word that fits. A single long word is cut.
    const std::string_view fitting = first_columns(line, most + 1);
    line.resize(std::min(fitting.rfind(' '), first_columns(line, most).size()));
    line += " ...";
  }
  return line;
}

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text)
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

} // namespace troupe::manual
