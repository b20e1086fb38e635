// The forms of a command's MODEL_DIR.
#include "services/options/model_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "services/options/role_options.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class model_folder_test : public testing::Test {
 protected:
  model_folder_test() {
    fs::create_directories(root);
    setenv("HF_HUB_CACHE", cache.c_str(), 1);
  }

  ~model_folder_test() override {
    unsetenv("HF_HUB_CACHE");
    fs::remove_all(root);
  }

  fs::path snapshot(const std::string& revision) const {
    const fs::path folder = repository / "snapshots" / revision;
    fs::create_directories(folder);
    return folder;
  }

  static std::string read(const fs::path& given) { return read_model_folder(given.string(), "MODEL_DIR"); }

  const fs::path root = fs::temp_directory_path() / ("troupe-model-folder-" + std::to_string(getpid()));
  const fs::path cache = root / "hub";
  const fs::path repository = cache / "models--org--a.name";
};

TEST_F(model_folder_test, a_folder_is_itself) {
  EXPECT_EQ(read(root), root.string());
}

TEST_F(model_folder_test, an_id_is_the_snapshot_that_main_is) {
  const fs::path first = snapshot("0123");
  snapshot("4567");
  fs::create_directories(repository / "refs");
  std::ofstream(repository / "refs" / "main") << "0123";
  EXPECT_EQ(read("org/a.name"), first.string());
  model_options options;
  options.model_dir = read("org/a.name");
  EXPECT_EQ(options.model_name(), "org/a.name") << "the revision is no name";
  options.served_model_name = "one,org/two";
  EXPECT_EQ(options.model_name(), "one");
  EXPECT_EQ(options.model_names(), (std::vector<std::string>{"one", "org/two"}));
}

TEST_F(model_folder_test, an_id_without_main_is_the_newest_snapshot) {
  const fs::path first = snapshot("0123");
  const fs::path second = snapshot("4567");
  fs::last_write_time(first, fs::last_write_time(second) + std::chrono::hours{1});
  EXPECT_EQ(read("org/a.name"), first.string());
}

TEST_F(model_folder_test, what_is_no_folder_says_what_to_do) {
  EXPECT_THAT([] { read("org/other"); }, ThrowsMessage<option_error>(AllOf(HasSubstr("hf download org/other"),
                                                                           HasSubstr("HF_HUB_CACHE"))));
  EXPECT_THAT([] { read("/no/such/folder"); },
              ThrowsMessage<option_error>(AllOf(HasSubstr("is no folder"), HasSubstr("config.json"))));
  EXPECT_THAT([] { read("./org"); }, ThrowsMessage<option_error>(HasSubstr("is no folder")));
  EXPECT_THAT([] { read("model.gguf"); }, ThrowsMessage<option_error>(HasSubstr("GGUF")));
  std::ofstream(root / "model.gguf") << "GGUF";
  EXPECT_THAT([&] { read(root); }, ThrowsMessage<option_error>(HasSubstr("GGUF")));
  std::ofstream(root / "config.json") << "{}";
  EXPECT_EQ(read(root), root.string()) << "a folder may hold both";
}

} // namespace
} // namespace troupe
