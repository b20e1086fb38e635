// troupe-load: asks a server as its users would, and measures.
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "load/commands.hpp"

int main(int argc, char** argv) {
  constexpr const char* usage = "usage: troupe-load run|eval [flags]\n"
                                "  run   send requests at a rate; report latencies and throughput\n"
                                "  eval  perplexity and bits per byte of held-out text\n"
                                "'troupe-load COMMAND --help' lists the flags.\n";
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string command = arguments.empty() ? "" : arguments.front();
  if (command == "--help" || command == "-h") {
    std::fputs(usage, stdout);
    return 0;
  }
  try {
    if (command == "run") {
      return troupe::load::run_command({arguments.begin() + 1, arguments.end()});
    }
    if (command == "eval") {
      return troupe::load::eval_command({arguments.begin() + 1, arguments.end()});
    }
  } catch (const std::exception& error) {
    std::cerr << "troupe-load: " << error.what() << '\n';
    return 1;
  }
  std::fputs(usage, stderr);
  return 2;
}
