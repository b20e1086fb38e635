// Interrupted packing continues where it was, whatever ended it.
#include "kernels/model/open_weights.hpp"
#include "kernels/model/packed_format.hpp"
#include "kernels/model/packed_writer.hpp"
#include "kernels/model/partial_file.hpp"
#include "kernels/model/required_tensors.hpp"
#include "tests/reference/random_model.hpp"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string bytes_of_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A model whose packed file has some 45 MB. Its weights are zeros, except for the first values of each
/// tensor.
void write_model(const fs::path& folder) {
  const test::random_model small("qwen3");
  auto config = json::parse(bytes_of_file(small.folder() / "config.json"));
  config["hidden_size"] = 256;
  config["vocab_size"] = 8000;
  config["moe_intermediate_size"] = 512;
  std::ofstream(folder / "config.json") << config;
  const auto parsed = load_config(folder);
  auto tensors = dense_tensors(parsed);
  for (std::size_t layer = 0; layer < parsed.num_layers(); ++layer)
    for (auto& tensor : expert_layer_tensors(parsed, layer))
      tensors.push_back(std::move(tensor));
  json header;
  std::uint64_t end = 0;
  std::vector<std::uint64_t> begins;
  for (const auto& tensor : tensors) {
    std::uint64_t bytes = 2;
    for (const auto dim : tensor.shape)
      bytes *= dim;
    begins.push_back(end);
    header[tensor.name] = {{"dtype", "BF16"}, {"shape", tensor.shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  const auto text = header.dump();
  const std::uint64_t length = text.size();
  const auto file = folder / "model.safetensors";
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof length) << text;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const auto value = static_cast<std::uint16_t>(0x3c00 + i % 0x300);
    out.seekp(static_cast<std::streamoff>(8 + length + begins[i]));
    out.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
  out.close();
  fs::resize_file(file, 8 + length + end);
}

/// Counts the requests.
class counting_source final : public cpu_weights {
 public:
  explicit counting_source(std::shared_ptr<const cpu_weights> from)
      : cpu_weights(from->config(), from->type(), from->quant()), from_(std::move(from)) {}

  std::string fingerprint() const override { return from_->fingerprint(); }

  std::string description() const override { return from_->description(); }

  std::vector<float> floats(const tensor_requirement& tensor) const override {
    ++dense;
    return from_->floats(tensor);
  }

  kernels::packed_matrix matrix(const matrix_ref& ref) const override {
    ++dense;
    return from_->matrix(ref);
  }

  kernels::expert_weights mlp(const mlp_ref& ref) const override {
    ++dense;
    return from_->mlp(ref);
  }

  embedding_rows embeddings() const override {
    ++dense;
    return from_->embeddings();
  }

  kernels::expert_weights expert(std::size_t layer, std::size_t expert) const override {
    ++experts;
    return from_->expert(layer, expert);
  }

  void forget(std::size_t layer, std::size_t expert) const noexcept override { from_->forget(layer, expert); }

  mutable std::atomic<std::size_t> dense = 0;
  mutable std::atomic<std::size_t> experts = 0;

 private:
  std::shared_ptr<const cpu_weights> from_;
};

class resumed_packing : public testing::Test {
 protected:
  static constexpr std::uint64_t note_often = 1; // after each block

  static void SetUpTestSuite() {
    model_ = std::make_unique<test::scratch_folder>();
    write_model(model_->path());
  }

  static void TearDownTestSuite() { model_.reset(); }

  void SetUp() override {
    write_packed(*source(), scratch_.path() / "whole", 1, [&](const pack_state& state) { end_ = state; });
    whole_ = bytes_of_file(scratch_.path() / "whole");
    ASSERT_GT(whole_.size(), std::size_t{20} << 20);
  }

  static std::shared_ptr<counting_source> source() {
    const auto config = load_config(model_->path());
    return std::make_shared<counting_source>(
        open_weights(model_->path(), config, {.dtype = dtype_choice::bfloat16}));
  }

  fs::path file() const { return scratch_.path() / "packed"; }

  fs::path partial() const { return file().string() + partial_ending; }

  fs::path journal() const { return file().string() + journal_ending; }

  /// Lets a separate process write, and kills it once N bytes are written.
  void kill_at(std::uint64_t bytes) const {
    const auto child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      write_packed(
          *source(), file(), 1,
          [bytes](const pack_state& state) {
            if (state.bytes >= bytes)
              ::raise(SIGKILL);
          },
          note_often);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it was to be killed at byte " << bytes;
    EXPECT_FALSE(fs::exists(file())) << "whole or not at all";
  }

  /// Writes the rest.
  /// @returns the requests to the source
  std::shared_ptr<counting_source> go_on() const {
    auto counted = source();
    write_packed(*counted, file(), 2, {}, note_often);
    EXPECT_EQ(bytes_of_file(file()), whole_);
    EXPECT_FALSE(fs::exists(partial()));
    EXPECT_FALSE(fs::exists(journal()));
    fs::remove(file());
    return counted;
  }

  inline static std::unique_ptr<test::scratch_folder> model_;
  test::scratch_folder scratch_;
  std::string whole_;
  pack_state end_;
};

TEST_F(resumed_packing, reads_what_is_missing_and_no_more) {
  const auto all = go_on();
  ASSERT_EQ(all->experts, end_.num_experts);
  const auto dense_bytes = whole_.size() - end_.num_experts * all->largest_expert(0);
  // In the attention side, among the experts, at the last one.
  for (const auto bytes : {dense_bytes / 2, whole_.size() / 2, whole_.size() * 9 / 10}) {
    kill_at(bytes);
    const auto rest = go_on();
    const auto missing = whole_.size() - bytes;
    // An incomplete block is written again, with the extents that touch it.
    const auto again = (std::uint64_t{2} << 20) + 2 * all->largest_expert(0);
    EXPECT_LE(rest->experts * all->largest_expert(0), missing + again) << "killed at byte " << bytes;
    EXPECT_LT(rest->dense, all->dense) << "killed at byte " << bytes;
    if (bytes > dense_bytes + again)
      EXPECT_EQ(rest->dense, 0U) << "killed at byte " << bytes;
  }
}

TEST_F(resumed_packing, can_be_killed_again_and_again) {
  for (const auto tenths : {1U, 3U, 3U, 6U, 9U})
    kill_at(whole_.size() * tenths / 10 + (tenths == 3 ? 1 : 0));
  const auto all = end_.num_experts;
  EXPECT_LT(go_on()->experts, all / 2);
}

TEST_F(resumed_packing, believes_no_part_that_is_not_what_its_journal_says) {
  const auto cut_journal = [this] { fs::resize_file(journal(), fs::file_size(journal()) - 3); };
  const std::vector<std::pair<const char*, std::function<void()>>> damages = {
      {"a torn line", cut_journal},
      {"a line of another part",
       [this] { std::ofstream(journal(), std::ios::app) << "0123456789abcdef {}\n"; }},
      {"no journal", [this] { fs::remove(journal()); }},
      {"no part", [this] { fs::remove(partial()); }},
      {"a part that is cut short", [this] { fs::resize_file(partial(), fs::file_size(partial()) / 2); }},
      {"other bytes at the end",
       [this] {
         std::fstream out(partial(), std::ios::binary | std::ios::in | std::ios::out);
         const auto last =
             json::parse(bytes_of_file(journal()).substr(bytes_of_file(journal()).rfind(" {") + 1));
         out.seekp(last["offset"].get<std::streamoff>() + 100);
         out.put('x');
       }},
      {"a file in the place of the journal", [this] { std::ofstream(journal()) << "hello\n"; }},
  };
  for (const auto& [what, damage] : damages) {
    SCOPED_TRACE(what);
    kill_at(whole_.size() / 2);
    damage();
    go_on();
  }
}

TEST_F(resumed_packing, a_part_of_other_weights_is_not_gone_on_with) {
  kill_at(whole_.size() / 2);
  auto text = bytes_of_file(journal());
  const auto other = source();
  const auto at = text.find(other->fingerprint());
  ASSERT_NE(at, std::string::npos);
  std::ofstream(journal()) << text.replace(at, 1, text[at] == 'a' ? "b" : "a");
  EXPECT_EQ(go_on()->experts, end_.num_experts);
}

} // namespace
} // namespace troupe::model
