// Programs' descriptions of themselves, and errors for programs without one.
#include "services/manual/program_descriptions.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::manual {
namespace {

using ::testing::StartsWith;
using ::testing::ThrowsMessage;

class program_descriptions : public ::testing::Test {
 protected:
  program_descriptions() {
    std::string pattern = (std::filesystem::temp_directory_path() / "troupe-describe-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("no folder");
    folder_ = pattern;
  }

  ~program_descriptions() override { std::filesystem::remove_all(folder_); }

  /// A program of this name in the folder.
  std::filesystem::path program(const std::string& name, const std::string& script) const {
    const auto path = folder_ / name;
    std::ofstream(path) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  std::filesystem::path folder_;
};

TEST_F(program_descriptions, are_what_programs_print) {
  command_description said;
  said.name = "troupe";
  said.summary = "serves";
  const auto path =
      program("troupe", "[ \"$1\" = --describe ] && cat << 'END'\n" + to_json(said) + "\nEND\n");
  EXPECT_EQ(describe_program(path).summary, "serves");
  const auto all = describe_programs_in(folder_);
  ASSERT_EQ(all.size(), 1U) << "those that are there";
  EXPECT_EQ(all[0].name, "troupe");
}

TEST_F(program_descriptions, an_error_names_the_program) {
  const auto says = [](const std::filesystem::path& path, const std::string& why) {
    return ThrowsMessage<std::runtime_error>(StartsWith(path.string() + " --describe: " + why));
  };
  const auto talker = program("talker", "echo hello\n");
  EXPECT_THAT([&] { describe_program(talker); }, says(talker, "this is no description of a program"));
  const auto failing = program("failing", "exit 3\n");
  EXPECT_THAT([&] { describe_program(failing); }, says(failing, "it has failed"));
  const auto missing = folder_ / "missing";
  EXPECT_THAT([&] { describe_program(missing); }, says(missing, "it cannot be run: No such file"));
}

} // namespace
} // namespace troupe::manual
