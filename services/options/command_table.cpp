#include "services/options/command_table.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "services/options/option_parser.hpp"

namespace troupe {

namespace {

/// What a command says of itself.
command_description description_of(const std::function<int(const std::vector<std::string>&)>& run) {
  try {
    run({describe_word});
  } catch (const description_answer& answer) {
    return answer.what;
  }
  throw std::logic_error("a command does not parse its flags first");
}

} // namespace

command_table::command_table(std::string program, std::vector<command> commands, std::string footer)
    : program_(std::move(program)), commands_(std::move(commands)), footer_(std::move(footer)) {}

command_table& command_table::about(std::string summary) {
  summary_ = std::move(summary);
  return *this;
}

command_table& command_table::otherwise(std::function<int(const std::vector<std::string>&)> run) {
  otherwise_ = std::move(run);
  return *this;
}

int command_table::run(const std::vector<std::string>& arguments) const {
  if (asks_for_description(arguments))
    throw description_answer{describe()};
  const bool names_none =
      arguments.empty() || (arguments.front().starts_with("--") && arguments.front() != "--version");
  if (otherwise_ && names_none)
    return otherwise_(arguments);
  if (arguments.empty())
    throw option_error("a command is missing: one of " + names() + "; see '" + program_ + " --help'");
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
  std::size_t width = 0;
  auto heading = [](const command& c) { return c.name + (c.arguments.empty() ? "" : " " + c.arguments); };
  for (const auto& c : commands_)
    width = std::max(width, heading(c).size());
  std::string text = "usage: " + program_ + " COMMAND [arguments]\n\n";
  if (!summary_.empty())
    text += summary_ + "\n\n";
  for (const auto& c : commands_) {
    std::string left = heading(c);
    left.resize(width + 3, ' ');
    text += "  " + left + c.summary + "\n";
  }
  return text + "\n'" + program_ + " COMMAND --help' lists a command's flags; '" + program_
         + " --version' prints the version.\n" + footer_;
}

command_description command_table::describe() const {
  command_description result;
  if (otherwise_)
    result = description_of(otherwise_);
  result.name = program_;
  if (!summary_.empty())
    result.summary = result.text = summary_;
  result.footer = footer_;
  for (const auto& c : commands_) {
    result.commands.push_back(description_of(c.run));
    // The line of the table: shorter than what --help of the command begins with.
    result.commands.back().summary = c.summary;
  }
  return result;
}

std::string command_table::names() const {
  std::string text;
  for (const auto& c : commands_)
    text += (text.empty() ? "" : ", ") + c.name;
  return text;
}

} // namespace troupe
