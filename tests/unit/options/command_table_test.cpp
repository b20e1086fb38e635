// Programs with commands: what runs, and what a mistake is told.
#include "services/options/command_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/options/option_parser.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

class command_table_test : public ::testing::Test {
 protected:
  /// What is printed meanwhile.
  std::string printed_by(const std::vector<std::string>& arguments) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(table_.run(arguments), 0);
    return testing::internal::GetCapturedStdout();
  }

  std::vector<std::string> got_;
  command_table table_{"troupe",
                       {{"serve", "MODEL_DIR", "serve a model",
                         [this](const std::vector<std::string>& arguments) {
                           got_ = arguments;
                           return 7;
                         }},
                        {"status", "", "show a cluster", [](const std::vector<std::string>&) { return 0; }}},
                       "More is in README.md.\n"};
};

TEST_F(command_table_test, runs_the_command_with_what_is_behind_it) {
  EXPECT_EQ(table_.run({"serve", "model", "--help"}), 7);
  EXPECT_THAT(got_, ElementsAre("model", "--help"));
}

TEST_F(command_table_test, names_what_it_does_not_know) {
  EXPECT_THAT(
      [&] {
        table_.run({"bogus", "model"});
      },
      ThrowsMessage<option_error>("unknown command 'bogus': a command comes first, one of serve, status; see "
                                  "'troupe --help'"));
  EXPECT_THAT(
      [&] {
        table_.run({"--port", "1"});
      },
      ThrowsMessage<option_error>("unknown flag '--port': a command comes first, one of serve, status; see "
                                  "'troupe --help'"));
  EXPECT_THAT([&] { table_.run({}); },
              ThrowsMessage<option_error>("a command is missing: one of serve, status; see 'troupe --help'"));
}

TEST_F(command_table_test, prints_its_version_and_its_commands) {
  EXPECT_EQ(printed_by({"--version"}), std::string("troupe ") + program_version() + "\n");
  for (const char* help : {"--help", "-h", "help"}) {
    EXPECT_EQ(printed_by({help}),
              "usage: troupe COMMAND [arguments]\n\n"
              "  serve MODEL_DIR   serve a model\n"
              "  status            show a cluster\n\n"
              "'troupe COMMAND --help' lists a command's flags; 'troupe --version' prints the "
              "version.\nMore is in README.md.\n");
  }
}

} // namespace
} // namespace troupe
