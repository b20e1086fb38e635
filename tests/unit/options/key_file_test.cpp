// Where a client's API key comes from.
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

} // namespace
} // namespace troupe
