// Completion scripts for shells: commands, flags and values of programs.
#pragma once

#include <string>
#include <vector>

#include "services/options/command_description.hpp"

namespace troupe::manual {

using programs_type = std::vector<command_description>;

/// For bash 4 and later; needs nothing else.
std::string bash_completion(const programs_type& programs);

/// For zsh, to be a file `_troupe` in a folder of $fpath, or to be sourced.
std::string zsh_completion(const programs_type& programs);

std::string fish_completion(const programs_type& programs);

/// The words after the program's name: "placement move" of "troupe placement move".
std::string words_behind_program(const command_description& command);

/// "troupe placement move" as a part of an identifier: "troupe_placement_move".
std::string identifier_of(const std::string& name);

/// The help of a flag or a command, up to its first clause, as a line beside a completion.
std::string short_help(const std::string& help);

/// The text in single quotes, escaped for a POSIX shell.
std::string quoted(const std::string& text);

} // namespace troupe::manual
