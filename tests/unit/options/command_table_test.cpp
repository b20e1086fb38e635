// Programs with commands: which one runs, and the errors for mistakes.
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
  /// The output meanwhile.
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

TEST_F(command_table_test, runs_something_else_where_no_command_is_named) {
  table_.otherwise([this](const std::vector<std::string>& arguments) {
    got_ = arguments;
    return 5;
  });
  EXPECT_EQ(table_.run({}), 5);
  EXPECT_EQ(table_.run({"--json"}), 5);
  EXPECT_THAT(got_, ElementsAre("--json"));
  EXPECT_EQ(table_.run({"serve"}), 7);
  EXPECT_EQ(printed_by({"--version"}), std::string("troupe ") + program_version() + "\n");
}

TEST(command_description, has_the_commands_of_commands_with_their_flags) {
  const auto leaf = [](const std::string& name) {
    return [name](const std::vector<std::string>& arguments) {
      std::string file;
      bool quick = true;
      option_parser parser(name, "Does " + name + ".");
      parser.positional("FILE", "what to read", &file);
      parser.choice("mode", {"on", "off"}, "how", &file);
      parser.toggle("quick", "do less", &quick);
      return parser.parse(arguments) == option_parser::outcome::help ? 0 : 1;
    };
  };
  const auto inner = [leaf](const std::vector<std::string>& arguments) {
    return command_table("p inner", {{"leaf", "FILE", "a leaf", leaf("p inner leaf")}})
        .otherwise(leaf("p inner"))
        .run(arguments);
  };
  command_table table("p", {{"inner", "", "a table", inner}}, "More.\n");
  try {
    table.about("A program.").run({describe_word});
    FAIL() << "it has run something";
  } catch (const description_answer& answer) {
    const auto copy = parse_description(to_json(answer.what)); // nothing is lost on the way
    EXPECT_EQ(to_json(copy), to_json(answer.what));
    EXPECT_EQ(copy.name, "p");
    EXPECT_EQ(copy.summary, "A program.");
    EXPECT_EQ(copy.footer, "More.\n");
    ASSERT_EQ(copy.commands.size(), 1U);
    const auto& of_inner = copy.commands[0];
    EXPECT_EQ(of_inner.name, "p inner");
    EXPECT_EQ(of_inner.summary, "a table");
    EXPECT_EQ(of_inner.text, "Does p inner.");
    ASSERT_EQ(of_inner.options.size(), 3U); // with --config
    EXPECT_EQ(of_inner.options[1].placeholder, "on|off");
    EXPECT_TRUE(of_inner.options[2].is_toggle);
    EXPECT_EQ(of_inner.options[2].default_text, "true");
    ASSERT_EQ(of_inner.commands.size(), 1U);
    EXPECT_EQ(of_inner.commands[0].name, "p inner leaf");
    ASSERT_EQ(of_inner.commands[0].arguments.size(), 1U);
    EXPECT_EQ(of_inner.commands[0].arguments[0].help, "what to read");
  }
  EXPECT_THROW(parse_description("{}"), std::runtime_error);
  EXPECT_THROW(parse_description("what"), std::runtime_error);
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
