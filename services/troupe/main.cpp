// troupe: serves a model in one process, supervises a local cluster, and looks at running ones.
#include <cstdio>

#include "services/process/role_main.hpp"
#include "services/troupe/commands.hpp"

namespace {

constexpr const char* usage =
    "usage: troupe COMMAND [arguments]\n"
    "\n"
    "  serve MODEL_DIR   serve a model with everything in one process\n"
    "  up MODEL_DIR      start and supervise a local cluster of separate processes\n"
    "  status            show workers, placement and load of a running cluster\n"
    "  quantize          write a model folder with quantized weights\n"
    "  tokenize          print the token ids of a text\n"
    "\n"
    "'troupe COMMAND --help' lists a command's flags. The processes of a cluster by hand:\n"
    "troupe-scheduler, troupe-gateway, troupe-attention, troupe-expert; README.md has a recipe.\n";

int run(const std::vector<std::string>& arguments) {
  std::string command = arguments.empty() ? "" : arguments.front();
  std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  if (command == "serve") {
    return troupe::serve_command(rest);
  }
  if (command == "up") {
    return troupe::up_command(rest);
  }
  if (command == "status") {
    return troupe::status_command(rest);
  }
  if (command == "quantize") {
    return troupe::quantize_command(rest);
  }
  if (command == "tokenize") {
    return troupe::tokenize_command(rest);
  }
  bool asked = command == "--help" || command == "-h" || command == "help";
  std::fputs(usage, asked ? stdout : stderr);
  return asked ? 0 : 2;
}

} // namespace

int main(int argc, char** argv) {
  return troupe::role_main("troupe", argc, argv, run);
}
