// Descriptions of the programs in a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "services/options/command_description.hpp"

namespace troupe::manual {

/// Asks the program for its description (`--describe`).
/// @throws std::runtime_error that names the program when it cannot be run or answers in another form
command_description describe_program(const std::filesystem::path& program);

/// Asks those programs of Troupe that exist in this folder.
/// @throws as describe_program
std::vector<command_description> describe_programs_in(const std::filesystem::path& folder);

} // namespace troupe::manual
