// Writes the manual pages of programs: one for each, and one for each of its commands.
//
// usage: manual_pages DIR VERSION DATE PROGRAM...
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "services/manual/manual_page.hpp"
#include "services/manual/program_descriptions.hpp"

namespace {

namespace manual = troupe::manual;

void write(const std::filesystem::path& folder, const troupe::command_description& what,
           const manual::release& release, bool is_program) {
  const auto file = folder / (manual::page_name(what) + ".1");
  std::ofstream out(file, std::ios::binary);
  out << manual::manual_page(what, release, is_program);
  out.close();
  if (!out)
    throw std::runtime_error("cannot write " + file.string());
}

int run(const std::vector<std::string>& words) {
  if (words.size() < 4) {
    std::cerr << "usage: manual_pages DIR VERSION DATE PROGRAM...\n";
    return 2;
  }
  const std::filesystem::path folder = words[0];
  const manual::release release{words[1], words[2]};
  std::filesystem::create_directories(folder);
  for (std::size_t i = 3; i < words.size(); ++i) {
    const auto program = manual::describe_program(words[i]);
    write(folder, program, release, true);
    for (const auto& command : program.commands)
      write(folder, command, release, false);
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "manual_pages: " << error.what() << '\n';
    return 1;
  }
}
