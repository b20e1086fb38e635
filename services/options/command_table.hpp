// Programs that do one of several things, by the name of a command.
#pragma once

#include <functional>
#include <string>
#include <vector>

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

  /// Runs the command that the first argument names, with the arguments behind it. Prints the usage for
  /// --help, -h and help, and the version for --version.
  /// @returns what the command returns
  /// @throws option_error for another name or none, with the names that there are
  int run(const std::vector<std::string>& arguments) const;

  /// What --help prints.
  std::string usage() const;

 private:
  std::string names() const;

  std::string program_;
  std::vector<command> commands_;
  std::string footer_;
};

} // namespace troupe
