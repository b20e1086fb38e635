// Programs with several commands.
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

  /// Sets the default command: it runs without arguments, and when the first argument is a flag other than
  /// --version.
  command_table& otherwise(std::function<int(const std::vector<std::string>&)> run);

  /// Runs the command named by the first argument, with the remaining arguments. Prints the usage for --help,
  /// -h and help, and the version for --version.
  /// @returns what the command returns
  /// @throws option_error for an unknown or missing name, with the known names; description_answer if the
  /// only argument is `describe_word`
  int run(const std::vector<std::string>& arguments) const;

  /// The text of --help.
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
