#include <filesystem>
#include <iostream>

#include "services/manual/completion.hpp"
#include "services/manual/program_descriptions.hpp"
#include "services/options/option_parser.hpp"
#include "services/troupe/commands.hpp"

namespace troupe {

int completion_command(const std::vector<std::string>& arguments) {
  std::string shell;
  option_parser parser("troupe completion",
                       "Prints what makes a shell complete the commands, flags and values of all programs of "
                       "Troupe that lie beside this one: source <(troupe completion bash).");
  parser.positional("bash|zsh|fish", "the shell", &shell);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  if (shell != "bash" && shell != "zsh" && shell != "fish")
    throw option_error("'" + shell + "' is no shell that is known here; there are bash, zsh and fish");
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto programs = manual::describe_programs_in(folder);
  std::cout << (shell == "bash"  ? manual::bash_completion(programs)
                : shell == "zsh" ? manual::zsh_completion(programs)
                                 : manual::fish_completion(programs));
  return 0;
}

} // namespace troupe
