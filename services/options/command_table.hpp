// Programs that do one of several things, by the name of a command.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "services/options/command_description.hpp"

namespace troupe {

struct command {
  std::string name;
  std::string arguments; ///< for the usage text: "MODEL_DIR", or nothing
  std::string summary;
  std::function<int(const std::vector<std::string>&)> run;
};

class command_table {
 public:
  /// @param program  its name in texts
  /// @param footer   further lines for --help; may be empty
  command_table(std::string program, std::vector<command> commands, std::string footer = {});

  /// A line about the program, for --help and its manual page.
  command_table& about(std::string summary);

  /// Runs this where no command is named: without arguments, and where a flag other than --version comes
  /// first.
  command_table& otherwise(std::function<int(const std::vector<std::string>&)> run);

  /// Runs the command that the first argument names, with the arguments behind it. Prints the usage for
  /// --help, -h and help, and the version for --version.
  /// @returns what the command returns
  /// @throws option_error for another name or none, with the names that there are; description_answer for
  /// `describe_word` alone
  int run(const std::vector<std::string>& arguments) const;

  /// What --help prints.
  std::string usage() const;

  /// All commands with their flags.
  command_description describe() const;

 private:
  std::string names() const;

  std::string program_;
  std::vector<command> commands_;
  std::string footer_;
  std::string summary_;
  std::function<int(const std::vector<std::string>&)> otherwise_;
};

} // namespace troupe
