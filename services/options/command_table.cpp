#include "services/options/command_table.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "services/options/option_parser.hpp"

namespace troupe {

command_table::command_table(std::string program, std::vector<command> commands, std::string footer)
    : program_(std::move(program)), commands_(std::move(commands)), footer_(std::move(footer)) {}

int command_table::run(const std::vector<std::string>& arguments) const {
  if (arguments.empty()) {
    throw option_error("a command is missing: one of " + names() + "; see '" + program_ + " --help'");
  }
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(usage().c_str(), stdout);
    return 0;
  }
  if (name == "--version") {
    std::printf("%s %s\n", program_.c_str(), program_version());
    return 0;
  }
  auto found =
      std::find_if(commands_.begin(), commands_.end(), [&](const command& c) { return c.name == name; });
  if (found == commands_.end()) {
    throw option_error((name.starts_with('-') ? "unknown flag '" : "unknown command '") + name
                       + "': a command comes first, one of " + names() + "; see '" + program_ + " --help'");
  }
  return found->run({arguments.begin() + 1, arguments.end()});
}

std::string command_table::usage() const {
  size_t width = 0;
  auto heading = [](const command& c) { return c.name + (c.arguments.empty() ? "" : " " + c.arguments); };
  for (const auto& c : commands_) {
    width = std::max(width, heading(c).size());
  }
  std::string text = "usage: " + program_ + " COMMAND [arguments]\n\n";
  for (const auto& c : commands_) {
    std::string left = heading(c);
    left.resize(width + 3, ' ');
    text += "  " + left + c.summary + "\n";
  }
  return text + "\n'" + program_ + " COMMAND --help' lists a command's flags; '" + program_
         + " --version' prints the version.\n" + footer_;
}

std::string command_table::names() const {
  std::string text;
  for (const auto& c : commands_) {
    text += (text.empty() ? "" : ", ") + c.name;
  }
  return text;
}

} // namespace troupe
