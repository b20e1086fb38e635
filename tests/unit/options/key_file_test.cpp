// The sources of a client's API key.
#include "services/options/key_file.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <gtest/gtest.h>
#include <unistd.h>

namespace troupe {
namespace {

TEST(client_api_key, is_the_first_of_its_file_or_that_of_openais_variable) {
  unsetenv("OPENAI_API_KEY");
  EXPECT_EQ(client_api_key(""), "");
  setenv("OPENAI_API_KEY", "from-the-environment", 1);
  EXPECT_EQ(client_api_key(""), "from-the-environment");
  auto file = std::filesystem::temp_directory_path() / ("troupe-key-" + std::to_string(getpid()));
  std::ofstream(file) << "# comment\n\n first \nsecond\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  EXPECT_EQ(client_api_key(file), "first");
  std::filesystem::remove(file);
  EXPECT_THROW(client_api_key(file), std::runtime_error);
  unsetenv("OPENAI_API_KEY");
}

TEST(client_api_key, is_not_read_where_others_can) {
  auto file = std::filesystem::temp_directory_path() / ("troupe-open-key-" + std::to_string(getpid()));
  std::ofstream(file) << "a-key\n";
  std::filesystem::permissions(file,
                               std::filesystem::perms::owner_read | std::filesystem::perms::others_read);
  EXPECT_THROW(client_api_key(file), std::runtime_error);
  std::filesystem::remove(file);
}

class key_file_test : public testing::Test {
 protected:
  ~key_file_test() override { std::filesystem::remove(file); }

  std::vector<named_key> read(const std::string& text) const {
    std::ofstream(file) << text;
    std::filesystem::permissions(file,
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return read_api_keys(file);
  }

  std::string error_of(const std::string& text) const {
    try {
      read(text);
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "";
  }

  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("troupe-keys-" + std::to_string(getpid()));
};

TEST_F(key_file_test, a_line_is_a_key_or_a_name_and_a_key) {
  const auto keys = read("first\n# bob second\n\talice  third \r\nalice fourth\nfifth#\n");
  std::vector<std::string> told;
  for (const auto& [name, key] : keys)
    told.push_back(name + "=" + key);
  EXPECT_EQ(told, (std::vector<std::string>{"key-1=first", "alice=third", "alice=fourth", "key-4=fifth#"}));
}

TEST_F(key_file_test, a_byte_order_mark_is_no_part_of_the_first_key) {
  EXPECT_EQ(read("\xEF\xBB\xBFsk-abc\n").front().key, "sk-abc");
  EXPECT_EQ(read("\xEF\xBB\xBF# keys\nsk-abc\n").front().key, "sk-abc");
}

TEST_F(key_file_test, a_key_that_no_header_can_carry_is_refused) {
  for (const char* key : {"caf\xC3\xA9", "a\x01", "a\x7F"})
    EXPECT_NE(error_of(std::string("alice ") + key + "\n")
                  .find("line 1 has a key with characters that no client can send"),
              std::string::npos)
        << key;
}

TEST_F(key_file_test, what_is_wrong_is_named_with_its_line_and_without_the_key) {
  EXPECT_NE(error_of("k\na secret more\n").find("line 2 has more than two words; write KEY or NAME KEY"),
            std::string::npos);
  EXPECT_NE(error_of("a/b secret\n").find("line 1 has a name that is no word of up to 64 letters"),
            std::string::npos);
  EXPECT_NE(error_of(std::string(65, 'n') + " secret\n").find("line 1"), std::string::npos);
  EXPECT_EQ(error_of("a/b secret\n").find("secret"), std::string::npos);
  EXPECT_NE(error_of("# none\n").find("holds no key"), std::string::npos);
}

} // namespace
} // namespace troupe
