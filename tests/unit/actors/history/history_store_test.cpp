// The activation history as a file: complete, or not used.
#include "actors/history/history_store.hpp"

#include <filesystem>
#include <iterator>
#include <stdexcept>

#include <gtest/gtest.h>

#include "actors/state/durable_file.hpp"

namespace troupe {
namespace {

stored_history sample_history() {
  const auto window = encode({5000, {3, 2, {{0, 4}, {}}}});
  return {{"model", {2, 0}, 600'000, 5000, 8, 9, {{0.1, 1e-310}, {}}, {{{5}, 3, 5000, window}}},
          {{{5}, 3}, {{9}, 1}}};
}

class history_store_test : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    directory = ::testing::TempDir() + "troupe-history-" + info->name();
    std::filesystem::remove_all(directory);
  }

  void TearDown() override { std::filesystem::remove_all(directory); }

  std::string directory;
};

TEST_F(history_store_test, gives_back_what_was_saved) {
  const history_store store{directory + "/deep"};
  EXPECT_FALSE(store.load());
  store.save(sample_history());
  EXPECT_EQ(store.load(), sample_history());
  auto newer = sample_history();
  newer.history.tokens = 99;
  store.save(newer);
  EXPECT_EQ(store.load(), newer);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{directory + "/deep"}, {}), 1) << "nothing else";
}

TEST_F(history_store_test, is_set_aside) {
  const history_store store{directory};
  store.save(sample_history());
  store.set_aside();
  EXPECT_FALSE(store.load());
  EXPECT_EQ(parse_stored_history(*read_file(store.path() + ".unused")), sample_history());
  EXPECT_THROW(store.set_aside(), std::runtime_error) << "there is nothing";
}

TEST_F(history_store_test, every_damage_is_noticed) {
  const auto sound = render(sample_history());
  EXPECT_EQ(parse_stored_history(sound), sample_history());
  for (std::size_t length = 0; length < sound.size(); ++length)
    EXPECT_THROW(parse_stored_history(sound.substr(0, length)), std::runtime_error) << length;
  for (std::size_t i = 0; i < sound.size(); ++i) {
    auto damaged = sound;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_THROW(parse_stored_history(damaged), std::runtime_error) << i;
  }
}

TEST_F(history_store_test, a_right_checksum_does_not_make_sense_of_nonsense) {
  auto broken = sample_history();
  broken.history.windows[0].encoded = "nonsense";
  EXPECT_THROW(parse_stored_history(render(broken)), std::runtime_error);
  const auto resealed = [](std::string body) {
    const auto sum = checksum_of(body);
    for (unsigned shift = 0; shift < 64; shift += 8)
      body += static_cast<char>(sum >> shift);
    return body;
  };
  const auto whole = render(sample_history());
  const auto body = whole.substr(0, whole.size() - 8);
  EXPECT_EQ(parse_stored_history(resealed(body)), sample_history());
  for (std::size_t length = 0; length < body.size(); ++length)
    EXPECT_THROW(parse_stored_history(resealed(body.substr(0, length))), std::runtime_error) << length;
  EXPECT_THROW(parse_stored_history(resealed(body + '\0')), std::runtime_error);
}

} // namespace
} // namespace troupe
