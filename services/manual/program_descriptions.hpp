// What the programs in a folder say of themselves.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "services/options/command_description.hpp"

namespace troupe::manual {

/// Asks the program for its description (`--describe`).
/// @throws std::runtime_error that names the program where it cannot be run or says something else
command_description describe_program(const std::filesystem::path& program);

/// Those of Troupe that are in this folder.
/// @throws as describe_program
std::vector<command_description> describe_programs_in(const std::filesystem::path& folder);

} // namespace troupe::manual
