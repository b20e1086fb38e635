#include <map>

#include "services/manual/completion.hpp"
#include "services/manual/value_kinds.hpp"

namespace troupe::manual {

namespace {

/// Finds the command that has been typed, then what can follow. `=` is a word of its own to bash, so that
/// `--flag=value` is three words.
constexpr const char* frame_begin =
    R"(# bash completion of Troupe's programs. Made by 'troupe completion bash'.

_troupe_offer_paths() { # -f for files, -d for folders
  local path
  while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen "$1" -- "$2")
  compopt -o filenames 2>/dev/null || : # outside of a completion
}

_troupe_complete() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local path=${COMP_WORDS[0]##*/} commands= flags= words= paths= next
  COMPREPLY=()
  if [[ $cur == = ]]; then
    cur=
  elif [[ $prev == = ]]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  local i
  for ((i = 1; i < COMP_CWORD; i++)); do
    _troupe_commands "$path"
    next=${COMP_WORDS[i]}
    [[ " $commands " == *" $next "* ]] || break
    path+=" $next"
  done
  if [[ $prev == -* ]] && _troupe_value "$path" "$prev"; then
    commands=
  elif [[ $cur == -* ]]; then
    _troupe_flags "$path"
    words=$flags
  else
    commands=
    ((i < COMP_CWORD)) || _troupe_commands "$path"
    words=$commands
    [[ -n $commands ]] || _troupe_argument "$path"
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  [[ $paths != *f* ]] || _troupe_offer_paths -f "$cur"
  [[ $paths != *d* ]] || _troupe_offer_paths -d "$cur"
  return 0
}
)";

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

/// The assignments that say what can stand in a place.
std::string offer_of(const value_kind& kind) {
  return "words=" + quoted(joined(kind.words)) + " paths=" + (kind.files ? "f" : kind.folders ? "d" : "");
}

/// The bodies of the four functions that know the commands.
struct function_bodies {
  std::string commands;
  std::string flags;
  std::string values;
  std::string arguments;
};

void add(const command_description& command, function_bodies& to) {
  const std::string label = "    " + quoted(command.name) + ") ";
  std::vector<std::string> commands;
  for (const auto& inner : command.commands)
    commands.push_back(inner.name.substr(inner.name.rfind(' ') + 1));
  if (!commands.empty())
    to.commands += label + "commands=" + quoted(joined(commands)) + " ;;\n";
  std::vector<std::string> flags;
  std::map<std::string, std::string> by_offer; // flags with the same values, as patterns of `case`
  for (const auto& option : command.options) {
    const std::string flag = "--" + option.name;
    flags.push_back(flag);
    if (!option.is_toggle) {
      std::string& patterns = by_offer[offer_of(kind_of_value(option.placeholder))];
      patterns += (patterns.empty() ? "" : "|") + flag;
    }
  }
  flags.insert(flags.end(), {"--help", "--version"});
  to.flags += label + "flags=" + quoted(joined(flags)) + " ;;\n";
  if (!by_offer.empty()) {
    to.values += label + "case $2 in\n";
    for (const auto& [offer, patterns] : by_offer)
      to.values += "      " + patterns + ") " + offer + " ;;\n";
    to.values += "      *) return 1 ;;\n      esac ;;\n";
  }
  if (!command.arguments.empty())
    to.arguments += label + offer_of(kind_of_value(command.arguments.front().name)) + " ;;\n";
  for (const auto& inner : command.commands)
    add(inner, to);
}

std::string function(const char* comment, const char* name, const std::string& body, const char* otherwise) {
  return std::string("\n# ") + comment + "\n" + name + "() {\n  case $1 in\n" + body + "    *) " + otherwise
         + " ;;\n  esac\n}\n";
}

} // namespace

std::string bash_completion(const programs_type& programs) {
  function_bodies bodies;
  std::string names;
  for (const auto& program : programs) {
    add(program, bodies);
    names += " " + program.name;
  }
  return frame_begin
         + function("Sets `commands` to those of a command.", "_troupe_commands", bodies.commands,
                    "commands=")
         + function("Sets `flags` to those of a command.", "_troupe_flags", bodies.flags, "flags=")
         + function("Sets `words` and `paths` to what a flag takes; fails where it takes no value.",
                    "_troupe_value", bodies.values, "return 1")
         + function("Sets `words` and `paths` to what a command's argument can be.", "_troupe_argument",
                    bodies.arguments, "words= paths=")
         + "\ncomplete -F _troupe_complete" + names + "\n";
}

} // namespace troupe::manual
