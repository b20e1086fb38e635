#include "services/manual/completion.hpp"
#include "services/manual/value_kinds.hpp"

namespace troupe::manual {

namespace {

/// Within a specification of `_arguments`, where these have a meaning.
std::string escaped(const std::string& text, const std::string& special) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string::npos)
      result += '\\';
    result += c;
  }
  return result;
}

/// ":MESSAGE:ACTION" of a value.
std::string action_of(const std::string& placeholder) {
  const value_kind kind = kind_of_value(placeholder);
  std::string text = ":" + escaped(placeholder, ":\\[]") + ":";
  if (kind.files)
    return text + "_files";
  if (kind.folders)
    return text + "_files -/";
  std::string words;
  for (const std::string& word : kind.words)
    words += (words.empty() ? "" : " ") + word;
  return text + (words.empty() ? " " : "(" + words + ")");
}

std::string function_of(const command_description& command) {
  return "_troupe__" + identifier_of(command.name);
}

std::string arguments_of(const command_description& command) {
  std::string text = "  _arguments";
  const auto add = [&text](const std::string& specification) { text += " \\\n    " + quoted(specification); };
  for (const auto& option : command.options) {
    const std::string help = "[" + escaped(short_help(option.help), ":\\[]") + "]";
    add(option.is_toggle ? "--" + option.name + help
                         : "*--" + option.name + "=" + help + action_of(option.placeholder));
  }
  add("--help[list the flags]");
  add("--version[print the version]");
  for (const auto& argument : command.arguments)
    add(action_of(argument.name));
  return text + "\n";
}

void add(const command_description& command, std::string& script) {
  script += "\n" + function_of(command) + "() {\n";
  if (command.commands.empty()) {
    script += arguments_of(command) + "}\n";
  } else {
    script += "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n    local -a commands=(\n";
    for (const auto& inner : command.commands) {
      script += "      "
                + quoted(inner.name.substr(inner.name.rfind(' ') + 1) + ":"
                         + escaped(short_help(inner.summary), ":"))
                + "\n";
    }
    script += "    )\n    _describe command commands\n    return\n  fi\n  case $words[2] in\n";
    for (const auto& inner : command.commands) {
      script += "    " + inner.name.substr(inner.name.rfind(' ') + 1) + ") shift words; (( CURRENT-- )); "
                + function_of(inner) + "; return ;;\n";
    }
    script += "  esac\n" + arguments_of(command) + "}\n";
  }
  for (const auto& inner : command.commands)
    add(inner, script);
}

} // namespace

std::string zsh_completion(const programs_type& programs) {
  std::string names;
  std::string script;
  std::string choices;
  for (const auto& program : programs) {
    names += " " + program.name;
    add(program, script);
    choices += "    " + program.name + ") " + function_of(program) + " ;;\n";
  }
  return "#compdef" + names + "\n# zsh completion of Troupe's programs. Made by 'troupe completion zsh'.\n"
         + script + "\n_troupe() {\n  case ${service:-${words[1]:t}} in\n" + choices
         + "  esac\n}\n\n"
           // A file of $fpath is the function's body; a file that is sourced has to say what it is for.
           "if [[ $funcstack[1] == _troupe ]]; then\n  _troupe \"$@\"\nelse\n  compdef _troupe"
         + names + "\nfi\n";
}

} // namespace troupe::manual
