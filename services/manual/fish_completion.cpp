#include "services/manual/completion.hpp"
#include "services/manual/value_kinds.hpp"

namespace troupe::manual {

namespace {

constexpr const char* fish_frame_begin =
    R"(# fish completion of Troupe's programs. Made by 'troupe completion fish'.

# Whether these words stand behind the program's name.
function __troupe_at
    set -l typed (commandline -opc)
    set -l wanted (count $argv)
    test (count $typed) -gt $wanted; or return 1
    test $wanted -eq 0; and return 0
    for i in (seq $wanted)
        set -l place (math $i + 1)
        test "$typed[$place]" = "$argv[$i]"; or return 1
    end
end

# Whether a command comes next behind these words.
function __troupe_next
    set -l typed (commandline -opc)
    test (count $typed) -eq (math (count $argv) + 1); and __troupe_at $argv
end
)";

/// Within single quotes of fish.
std::string fish_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text)
    result += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return result + "'";
}

/// The arguments of `complete` for a value: exactly these words, or files.
std::string value_of(const std::string& placeholder) {
  const value_kind kind = kind_of_value(placeholder);
  std::string words;
  for (const std::string& word : kind.words)
    words += (words.empty() ? "" : " ") + word;
  if (kind.folders)
    words = "(__fish_complete_directories)";
  const std::string offered = words.empty() ? "" : " -a " + fish_quoted(words);
  return kind.files ? " -r -F" + offered : " -x" + offered;
}

void add(const command_description& command, const std::string& program, std::string& script) {
  const std::string start = "complete -c " + program + " -n ";
  const std::string words = words_behind_program(command);
  const std::string here = start + fish_quoted("__troupe_at" + (words.empty() ? "" : " " + words));
  for (const auto& inner : command.commands) {
    script += start + fish_quoted("__troupe_next" + (words.empty() ? "" : " " + words)) + " -f -a "
              + inner.name.substr(inner.name.rfind(' ') + 1) + " -d " + fish_quoted(short_help(inner.summary))
              + "\n";
  }
  for (const auto& option : command.options) {
    script += here + " -l " + option.name + (option.is_toggle ? "" : value_of(option.placeholder)) + " -d "
              + fish_quoted(short_help(option.help)) + "\n";
  }
  script += here + " -l help -d 'list the flags'\n" + here + " -l version -d 'print the version'\n";
  if (command.commands.empty()) {
    const value_kind kind =
        command.arguments.empty() ? value_kind{} : kind_of_value(command.arguments.front().name);
    script += here
              + (kind.files     ? " -F"
                 : kind.folders ? " -f -a '(__fish_complete_directories)'"
                                : " -f")
              + "\n";
  }
  for (const auto& inner : command.commands)
    add(inner, program, script);
}

} // namespace

std::string fish_completion(const programs_type& programs) {
  std::string script = fish_frame_begin;
  for (const auto& program : programs) {
    script += "\n";
    add(program, program.name, script);
  }
  return script;
}

} // namespace troupe::manual
