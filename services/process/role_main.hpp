// The frame of every program: what a mistake in flags and a failure at start look like.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace troupe {

/// Runs `body` with the arguments behind the program's name, and with as many files as may be open at once
/// (`raise_descriptor_limit`).
/// @returns what `body` returns; 0 after `--describe`, which prints what the program can do as JSON; 2 after
/// a bad flag, 1 after any other exception, each with one line on stderr
int role_main(const std::string& program, int argc, char** argv,
              const std::function<int(const std::vector<std::string>&)>& body);

} // namespace troupe
