// The main function of every program: reports errors in flags and failures at start.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace troupe {

/// Raises the descriptor limit (`raise_descriptor_limit`) and runs `body` with the arguments after the
/// program's name.
/// @returns the result of `body`; 0 after `--describe`, which prints the program's description as JSON; 2
/// after a bad flag, 1 after any other exception, each with one line on stderr
int role_main(const std::string& program, int argc, char** argv,
              const std::function<int(const std::vector<std::string>&)>& body);

} // namespace troupe
