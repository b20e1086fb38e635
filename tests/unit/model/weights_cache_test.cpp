#include "kernels/model/weights_cache.hpp"

#include "kernels/model/open_weights.hpp"
#include "kernels/model/packed_format.hpp"
#include "tests/reference/random_model.hpp"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/file.h>
#include <unistd.h>
#include <vector>

namespace troupe::model {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t layer_of_experts = 1;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class weights_cache : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = std::make_unique<test::random_model>("qwen2_dense_layers"); }

  static void TearDownTestSuite() { model_.reset(); }

  open_options options(expert_quant experts = expert_quant::int8) const {
    return {.dtype = dtype_choice::bfloat16,
            .quant = {experts, dense_quant::none, kernels::row_quant::none},
            .cache = {.folder = scratch_.path()}};
  }

  static std::shared_ptr<const cpu_weights> open(const open_options& options) {
    return open_weights(model_->folder(), config_, options);
  }

  /// Names in the folder except locks, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path()))
      if (entry.path().extension() != ".lock")
        result.push_back(entry.path().filename().string());
    std::ranges::sort(result);
    return result;
  }

  std::filesystem::path only_file() const { return scratch_.path() / names().at(0); }

  /// Flips a bit of an extent.
  static void damage(const std::filesystem::path& file, const std::string& extent) {
    auto bytes = read_file(file);
    const auto header = packed_header::decode(std::as_bytes(std::span{bytes.data(), bytes.size()}), "file");
    const auto index = decode_index(std::string_view{bytes}.substr(header.index_offset, header.index_bytes),
                                    header.index_offset, "file");
    for (const auto& e : index.extents)
      if (e.name == extent)
        bytes[e.offset + e.num_bytes / 2] ^= 1;
    write_file(file, bytes);
  }

  static inline std::unique_ptr<test::random_model> model_;
  static inline model_config config_;
  test::scratch_folder scratch_;

  void SetUp() override { config_ = load_config(model_->folder()); }
};

TEST_F(weights_cache, is_filled_once_and_again_where_its_file_cannot_be_opened) {
  EXPECT_THAT(open(options())->description(), HasSubstr("packed in "));
  EXPECT_THAT(names(), ElementsAre(EndsWith(".troupe")));
  const auto path = only_file();
  const auto whole = read_file(path);
  const auto time = std::filesystem::last_write_time(path);
  open(options());
  EXPECT_EQ(std::filesystem::last_write_time(path), time);
  write_file(path, whole.substr(0, 1000));
  open(options());
  EXPECT_EQ(read_file(path), whole);
}

TEST_F(weights_cache, a_file_of_another_arithmetic_revision_is_written_again) {
  open(options());
  const auto path = only_file();
  EXPECT_THAT(path.string(),
              EndsWith("-bf16-int8-r" + std::to_string(kernels::arithmetic_revision) + ".troupe"));
  const auto whole = read_file(path);
  auto header = packed_header::decode(std::as_bytes(std::span{whole.data(), whole.size()}), "file");
  header.arithmetic_revision += 1;
  const auto start = header.encode();
  write_file(path, std::string{reinterpret_cast<const char*>(start.data()), start.size()}
                       + whole.substr(start.size()));
  open(options());
  EXPECT_EQ(read_file(path), whole);
}

TEST_F(weights_cache, a_file_with_a_damaged_extent_is_removed_and_the_next_start_writes_it_again) {
  open(options());
  const auto path = only_file();
  const auto whole = read_file(path);
  damage(path, "layers.1.experts.5");
  {
    const auto source = open(options());
    source->expert(layer_of_experts, 4);
    try {
      source->expert(layer_of_experts, 5);
      ADD_FAILURE() << "a damaged expert was given";
    } catch (const cache_damaged& error) {
      EXPECT_THAT(error.what(), HasSubstr(path.string() + ": extent 'layers.1.experts.5' is damaged"));
      EXPECT_THAT(error.what(), HasSubstr("has been removed"));
    }
    EXPECT_THAT(names(), ElementsAre());
    source->expert(layer_of_experts, 4); // mapped data stays
  }
  open(options())->expert(layer_of_experts, 5);
  EXPECT_EQ(read_file(path), whole);
}

// Several workers find the same damage when they request the expert: the first one's next start may have
// replaced the file before the others find it.
TEST_F(weights_cache, whoever_still_maps_a_damaged_file_leaves_the_one_that_replaced_it) {
  open(options());
  const auto path = only_file();
  const auto whole = read_file(path);
  damage(path, "layers.1.experts.5");
  const auto first = open(options());
  const auto second = open(options());
  EXPECT_THROW(first->expert(layer_of_experts, 5), cache_damaged);
  ASSERT_THAT(names(), ElementsAre());
  open(options())->expert(layer_of_experts, 5);
  try {
    second->expert(layer_of_experts, 5);
    ADD_FAILURE() << "a damaged expert was given";
  } catch (const cache_damaged& error) {
    EXPECT_THAT(error.what(), HasSubstr("another file has taken its place"));
  }
  EXPECT_EQ(read_file(path), whole);
}

TEST_F(weights_cache, a_packed_folder_that_is_damaged_stays) {
  const auto file = scratch_.path() / packed_file_name;
  write_packed(*open_weights(model_->folder(), config_, {.dtype = dtype_choice::bfloat16}), file, 1);
  damage(file, "layers.1.experts.5");
  const auto source = open_weights(scratch_.path(), config_, {});
  EXPECT_THROW(source->expert(layer_of_experts, 5), model_error);
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(weights_cache, a_file_under_the_name_of_another_is_not_believed) {
  open(options(expert_quant::int8));
  const auto path = only_file();
  const auto whole = read_file(path);
  test::scratch_folder other;
  auto int4 = options(expert_quant::int4_group32);
  int4.cache.folder = other.path();
  open(int4);
  for (const auto& entry : std::filesystem::directory_iterator(other.path()))
    if (entry.path().extension() == ".troupe")
      std::filesystem::copy_file(entry.path(), path, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(open(options(expert_quant::int8))->quant().experts, expert_quant::int8);
  EXPECT_EQ(read_file(path), whole);
}

TEST_F(weights_cache, a_file_of_another_model_under_our_name_is_not_believed) {
  open(options());
  const auto path = only_file();
  const auto whole = read_file(path);
  const test::random_model stranger("qwen2_dense_layers", 2); // the same shapes, other weights
  test::scratch_folder other;
  auto elsewhere = options();
  elsewhere.cache.folder = other.path();
  open_weights(stranger.folder(), load_config(stranger.folder()), elsewhere);
  for (const auto& entry : std::filesystem::directory_iterator(other.path()))
    if (entry.path().extension() == ".troupe")
      std::filesystem::copy_file(entry.path(), path, std::filesystem::copy_options::overwrite_existing);
  ASSERT_NE(read_file(path), whole);
  open(options());
  EXPECT_EQ(read_file(path), whole) << "written again";
}

// The folder may not be writable for this process.
TEST_F(weights_cache, a_file_that_is_there_needs_no_lock) {
  open(options());
  const auto lock = only_file().string() + ".lock";
  ASSERT_TRUE(std::filesystem::remove(lock));
  open(options());
  EXPECT_FALSE(std::filesystem::exists(lock));
}

TEST_F(weights_cache, filling_can_be_given_up_at_any_time_and_is_gone_on_with) {
  std::size_t calls = 0;
  pack_state last;
  auto counted = options();
  counted.cache.progress = [&](const pack_state& state) {
    EXPECT_GE(state.bytes, last.bytes);
    EXPECT_LE(state.bytes, state.total_bytes);
    last = state;
    ++calls;
  };
  open(counted);
  EXPECT_EQ(last.experts, last.num_experts);
  const auto path = only_file();
  const auto whole = read_file(path);
  EXPECT_EQ(last.bytes, last.total_bytes);
  std::filesystem::remove(path);
  ASSERT_GT(calls, 20U);
  for (const std::size_t stop : {std::size_t{1}, calls / 2, calls}) {
    auto given_up = options();
    given_up.cache.progress = [left = stop](const pack_state&) mutable {
      if (--left == 0)
        throw std::runtime_error("given up");
    };
    EXPECT_THROW(open(given_up), std::runtime_error);
    EXPECT_FALSE(std::filesystem::exists(path)) << "not whole";
  }
  open(options());
  EXPECT_THAT(names(), ElementsAre(path.filename().string()));
  EXPECT_EQ(read_file(path), whole);
}

TEST_F(weights_cache, who_waits_for_another_process_is_told_and_can_give_up) {
  open(options());
  const auto path = only_file();
  std::filesystem::remove(path);
  const int lock = ::open((path.string() + ".lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  std::vector<bool> firsts;
  auto waiting = options();
  waiting.cache.waiting = [&](const std::filesystem::path& file, bool first) {
    EXPECT_EQ(file, path);
    firsts.push_back(first);
    if (firsts.size() == 3)
      throw std::runtime_error("given up");
  };
  EXPECT_THROW(open(waiting), std::runtime_error);
  EXPECT_THAT(firsts, ElementsAre(true, false, false));
  EXPECT_THAT(names(), ElementsAre());
  ::close(lock);
  open(waiting); // free now
  EXPECT_EQ(firsts.size(), 3U);
}

TEST_F(weights_cache, weights_that_are_not_finite_are_named) {
  test::scratch_folder broken;
  std::filesystem::copy(model_->folder(), broken.path());
  const std::string name = "model.layers.1.mlp.experts.5.gate_proj.weight";
  const auto weights = checkpoint::open(model_->folder());
  const auto& tensor = weights.at(name);
  ASSERT_EQ(tensor.type, storage_dtype::bfloat16);
  const std::string values(reinterpret_cast<const char*>(tensor.data), tensor.num_bytes);
  std::size_t changed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(broken.path())) {
    auto bytes = read_file(entry.path());
    if (const auto at = bytes.find(values); at != std::string::npos) {
      write_file(entry.path(), bytes.replace(at, 2, "\x80\x7f")); // infinity
      ++changed;
    }
  }
  ASSERT_EQ(changed, 1U);
  for (const auto quant : {expert_quant::none, expert_quant::int8}) {
    auto opened = options(quant);
    opened.cache.folder.clear();
    const auto source = open_weights(broken.path(), config_, opened);
    source->expert(layer_of_experts, 4);
    try {
      source->expert(layer_of_experts, 5);
      ADD_FAILURE() << "infinity was packed";
    } catch (const model_error& error) {
      EXPECT_THAT(error.what(), AllOf(StartsWith(broken.path().string() + "/model"),
                                      HasSubstr(".safetensors: tensor '" + name
                                                + "', row 0, column 0 is not a finite number in bf16: the "
                                                  "file is damaged (fetch it again)")));
    }
  }
}

} // namespace
} // namespace troupe::model
