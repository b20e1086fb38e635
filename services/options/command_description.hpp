// Commands and flags of a program as data, for shell completions and manual pages.
#pragma once

#include <string>
#include <vector>

namespace troupe {

struct option_description {
  std::string name;        ///< without dashes
  std::string placeholder; ///< "FILE", "on|off"; empty for a toggle
  std::string help;
  std::string default_text; ///< empty: none
  bool is_toggle = false;
};

struct argument_description {
  std::string name; ///< "MODEL_DIR"
  std::string help;
};

struct command_description {
  std::string name;    ///< with its program: "troupe placement move"
  std::string summary; ///< a line
  std::string text;    ///< the first lines of --help; may be empty
  std::vector<argument_description> arguments;
  std::vector<option_description> options;
  std::vector<command_description> commands;
  std::string footer; ///< further lines; may be empty
};

/// As the only argument it makes a program or command throw its description before it does anything else.
inline constexpr const char* describe_word = "--describe";

/// The answer to `describe_word`. Not a std::exception, so that handlers of failures let it pass.
struct description_answer {
  command_description what;
};

/// Whether the arguments ask for a description.
bool asks_for_description(const std::vector<std::string>& arguments);

/// The form in which programs print it.
std::string to_json(const command_description& what);

/// @throws std::runtime_error for another form
command_description parse_description(const std::string& json);

} // namespace troupe
