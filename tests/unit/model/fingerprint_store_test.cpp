#include "kernels/model/fingerprint_store.hpp"

#include "tests/reference/random_model.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe::model {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr auto an_hour = std::chrono::hours{1};

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class fingerprint_store : public testing::Test {
 protected:
  void SetUp() override { make_older(an_hour); }

  void make_older(std::chrono::hours by) const {
    for (const auto& entry : fs::directory_iterator(model_.folder()))
      fs::last_write_time(entry.path(), entry.last_write_time() - by);
  }

  std::string ask() const {
    return kept_fingerprint(checkpoint::open(model_.folder()), load_config(model_.folder()), cache_.path());
  }

  std::string computed() const {
    return checkpoint::open(model_.folder()).fingerprint(load_config(model_.folder()));
  }

  fs::path beside() const { return model_.folder() / fingerprint_file_name; }

  fs::path cached() const { return fingerprint_file(cache_.path(), model_.folder()); }

  /// Writes another fingerprint: a reader that returns it has read no tensor.
  static void exchange(const fs::path& file, const std::string& fingerprint) {
    auto text = text_of(file);
    const auto at = text.find(fingerprint);
    ASSERT_NE(at, std::string::npos) << text;
    std::ofstream(file) << text.replace(at, fingerprint.size(), invented);
  }

  static inline const std::string invented = std::string(32, 'a');
  test::random_model model_{"mixtral_sharded"};
  test::scratch_folder cache_;
};

TEST_F(fingerprint_store, is_kept_beside_the_model_and_believed) {
  const auto fingerprint = ask();
  EXPECT_EQ(fingerprint, computed());
  ASSERT_TRUE(fs::exists(beside()));
  EXPECT_TRUE(fs::is_empty(cache_.path()));
  exchange(beside(), fingerprint);
  EXPECT_EQ(ask(), invented);
}

TEST_F(fingerprint_store, is_kept_in_the_cache_where_the_model_folder_cannot_be_written_to) {
  fs::create_directory(beside()); // also root cannot put a file there
  const auto fingerprint = ask();
  EXPECT_EQ(fingerprint, computed());
  exchange(cached(), fingerprint);
  EXPECT_EQ(ask(), invented);
}

TEST_F(fingerprint_store, without_any_place_it_is_computed) {
  fs::create_directory(beside());
  const auto weights = checkpoint::open(model_.folder());
  EXPECT_EQ(kept_fingerprint(weights, load_config(model_.folder()), {}), computed());
  EXPECT_EQ(kept_fingerprint(weights, load_config(model_.folder()), "/dev/null/nowhere"), computed());
}

TEST_F(fingerprint_store, of_other_files_is_not_believed_and_written_again) {
  const auto file = model_.folder() / "model-00002-of-00003.safetensors";
  const auto config = model_.folder() / "config.json";
  const std::vector<std::pair<std::string, std::function<void()>>> changes = {
      {"written to", [&] { fs::last_write_time(file, fs::last_write_time(file) - an_hour); }},
      {"another file of the same time and size",
       [&] {
         const auto time = fs::last_write_time(file);
         fs::copy_file(file, file.string() + ".new");
         fs::last_write_time(file.string() + ".new", time);
         fs::rename(file.string() + ".new", file);
       }},
      {"another config.json",
       [&] {
         auto text = text_of(config);
         const auto at = text.find("\"rope_theta\": ");
         ASSERT_NE(at, std::string::npos);
         std::ofstream(config) << text.replace(at, 14, "\"rope_theta\": 1");
       }},
  };
  for (const auto& [what, change] : changes) {
    exchange(beside(), ask());
    ASSERT_EQ(ask(), invented) << what;
    change();
    const auto fingerprint = ask();
    EXPECT_EQ(fingerprint, computed()) << what;
    EXPECT_THAT(text_of(beside()), HasSubstr(fingerprint)) << what;
  }
}

TEST_F(fingerprint_store, a_damaged_file_counts_for_nothing) {
  const auto fingerprint = ask();
  const auto whole = text_of(beside());
  for (const auto& text : {std::string{}, std::string(40, 'a'), whole.substr(0, whole.size() / 2)}) {
    std::ofstream(beside()) << text;
    EXPECT_EQ(ask(), fingerprint) << text;
    EXPECT_EQ(text_of(beside()), whole) << "written again";
  }
}

// The file system's clock may not distinguish the next write from the last one.
TEST_F(fingerprint_store, of_files_that_have_just_been_written_is_not_kept) {
  const auto file = model_.folder() / "model-00002-of-00003.safetensors";
  fs::last_write_time(file, fs::file_time_type::clock::now());
  EXPECT_EQ(ask(), computed());
  EXPECT_FALSE(fs::exists(beside()));
  EXPECT_FALSE(fs::exists(cached()));
}

/// A file of 16 MiB tensors that occupies no disk space.
void write_sparse_checkpoint(const fs::path& file, std::size_t num_tensors) {
  constexpr std::uint64_t tensor_bytes = std::uint64_t{16} << 20;
  std::string header = "{";
  for (std::size_t i = 0; i < num_tensors; ++i)
    header += std::string(i == 0 ? "" : ",") + "\"t" + std::to_string(i) + R"(":{"dtype":"BF16","shape":[)"
              + std::to_string(tensor_bytes / 2) + R"(],"data_offsets":[)" + std::to_string(i * tensor_bytes)
              + "," + std::to_string((i + 1) * tensor_bytes) + "]}";
  header += "}";
  std::uint64_t length = header.size();
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(&length), 8) << header;
  fs::resize_file(file, 8 + header.size() + num_tensors * tensor_bytes);
}

/// Bytes of a file in the page cache.
std::uint64_t cached_bytes(const fs::path& path) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto size = static_cast<std::size_t>(fs::file_size(path));
  auto* mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  std::vector<unsigned char> pages((size + page - 1) / page);
  const auto failed = mapped == MAP_FAILED || ::mincore(mapped, size, pages.data()) != 0;
  ::munmap(mapped, size);
  EXPECT_FALSE(failed);
  return static_cast<std::uint64_t>(std::ranges::count_if(pages, [](auto state) { return (state & 1) != 0; }))
         * page;
}

// With any read-ahead of disk or file system, often megabytes, which would read the whole checkpoint.
TEST(fingerprint_reads, are_a_page_or_two_of_each_tensor) {
  constexpr std::size_t num_tensors = 300;
  const test::random_model model("qwen3");
  const test::scratch_folder folder;
  const auto file = folder.path() / "model.safetensors";
  write_sparse_checkpoint(file, num_tensors);
  ASSERT_LE(cached_bytes(file), std::uint64_t{128} << 10) << "of writing the header";
  const auto weights = checkpoint::open(folder.path());
  const auto of_header = cached_bytes(file);
  EXPECT_LE(of_header, std::uint64_t{128} << 10);
  EXPECT_EQ(weights.fingerprint(load_config(model.folder())).size(), 32U);
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_LE(cached_bytes(file) - of_header, num_tensors * 2 * page);
}

} // namespace
} // namespace troupe::model
