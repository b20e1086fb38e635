// Environment variables for the flags of commands other than servers: servers do not report them as misspelt.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "load/commands.hpp"
#include "services/options/environment.hpp"
#include "services/options/option_parser.hpp"
#include "services/troupe/commands.hpp"

namespace troupe {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using command_function = int (*)(const std::vector<std::string>& arguments);

/// As --help lists them, without dashes.
std::vector<std::string> flags_of(command_function run) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run({"--help"}), 0);
  std::istringstream help(::testing::internal::GetCapturedStdout());
  std::vector<std::string> flags;
  for (std::string line; std::getline(help, line);)
    if (line.starts_with("  --"))
      flags.push_back(line.substr(4, line.find(' ', 4) - 4));
  return flags;
}

std::string variable_of(const std::string& flag) {
  std::string name = "TROUPE_" + flag;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
  return name;
}

/// The unknown variables of a server without flags of its own when those of `flags` are set.
std::vector<std::string> unknown_with(const std::vector<std::string>& flags) {
  for (const auto& flag : flags)
    setenv(variable_of(flag).c_str(), "1", 1);
  auto found = find_unread_variables(option_parser("test", "")).unknown;
  for (const auto& flag : flags)
    unsetenv(variable_of(flag).c_str());
  return found;
}

struct command_case {
  command_function run;
  const char* flag; // one that it has
};

void expect_known(const std::vector<command_case>& commands) {
  for (const auto& command : commands) {
    auto flags = flags_of(command.run);
    EXPECT_THAT(flags, Contains(command.flag));
    EXPECT_THAT(unknown_with(flags), IsEmpty());
  }
}

/// `troupe placement` with a command, by its first letter.
template <char First>
int placement(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  for (const char* name : {"move", "replicate", "pin", "drain", "wait"})
    if (name[0] == First)
      words.insert(words.begin(), name);
  return placement_commands(words);
}

/// The same for `troupe trace`.
template <char First>
int trace(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), First == 's' ? "start" : "merge");
  return trace_commands(words);
}

TEST(command_flags, of_troupe_are_known_to_servers) {
  expect_known({{status_command, "json"},
                {inspect_command, "expert-workers"},
                {quantize_command, "to"},
                {tokenize_command, "special-tokens"},
                {tune_command, "seconds"}});
  expect_known({{top_command, "interval"}});
  expect_known({{placement_commands, "json"},
                {placement<'m'>, "from"},
                {placement<'r'>, "replicas"},
                {placement<'p'>, "hosts"},
                {placement<'d'>, "worker"},
                {placement<'w'>, "timeout"}});
  expect_known({{trace<'s'>, "sample"}, {trace<'m'>, "clocks"}});
}

TEST(command_flags, of_troupe_load_are_known_to_servers) {
  expect_known({{load::run_command, "request-rate"}, {load::eval_command, "heldout"}});
}

TEST(command_flags, are_described_as_help_lists_them) {
  for (const command_function run : {status_command, top_command, inspect_command, quantize_command,
                                     tune_command, tokenize_command, placement<'m'>, trace<'m'>}) {
    std::vector<std::string> names;
    std::string command;
    try {
      run({describe_word});
      FAIL() << "it has gone on";
    } catch (const description_answer& answer) {
      command = answer.what.name;
      for (const auto& option : answer.what.options)
        names.push_back(option.name);
    }
    EXPECT_EQ(names, flags_of(run)) << command;
  }
}

TEST(command_flags, of_nobody_are_not_known) {
  EXPECT_THAT(unknown_with({"request-rat"}), ElementsAre("TROUPE_REQUEST_RAT"));
}

} // namespace
} // namespace troupe
