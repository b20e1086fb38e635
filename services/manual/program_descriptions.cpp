#include "services/manual/program_descriptions.hpp"

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::manual {

namespace {

constexpr std::array program_names{"troupe",         "troupe-attention", "troupe-expert",
                                   "troupe-gateway", "troupe-load",      "troupe-scheduler"};

/// All that can be read until the other side has closed.
std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t bytes; (bytes = ::read(fd, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(bytes));
  return text;
}

} // namespace

command_description describe_program(const std::filesystem::path& program) {
  const auto failed = [&program](const std::string& why) {
    return std::runtime_error(program.string() + " --describe: " + why);
  };
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
    throw failed("no pipe: " + std::generic_category().message(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  const std::string path = program.string();
  std::string word = describe_word;
  std::array<char*, 3> arguments{const_cast<char*>(path.c_str()), word.data(), nullptr};
  pid_t child = 0;
  const int error = ::posix_spawn(&child, path.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  const std::string answer = error == 0 ? read_all(pipe[0]) : "";
  ::close(pipe[0]);
  if (error != 0)
    throw failed("it cannot be run: " + std::generic_category().message(error));
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw failed("it has failed");
  try {
    return parse_description(answer);
  } catch (const std::runtime_error& malformed) {
    throw failed(malformed.what());
  }
}

std::vector<command_description> describe_programs_in(const std::filesystem::path& folder) {
  std::vector<command_description> found;
  for (const char* name : program_names)
    if (std::filesystem::exists(folder / name))
      found.push_back(describe_program(folder / name));
  return found;
}

} // namespace troupe::manual
