// Tokenizing ends at its deadline and with its client, even within a pre-tokenizer and within one piece.
#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/tokenizer.hpp"
#include "services/gateway/text/work_limit.hpp"
#include "tests/unit/text/small_tokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

namespace troupe::text {

namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::ThrowsMessage;

std::shared_ptr<const tokenizer> with_pattern(const std::string& pattern) {
  auto json = small_tokenizer();
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern;
  return tokenizer::parse(json.dump(), "", "folder");
}

/// Takes quadratic time for a text of one letter: at each place it searches to the end in vain.
constexpr const char* slow_pattern = "a+c|.";

TEST(work_limit, ends_a_pre_tokenizer_whose_matches_are_each_within_their_limit) {
  const auto slow = with_pattern(slow_pattern);
  const std::string text(256UL << 10U, 'a');
  const auto begin = steady_clock::now();
  const limited_work limit(100ms, nullptr);
  EXPECT_THAT([&] { slow->encode(text, false); }, ThrowsMessage<text_error>("it takes more than 100 ms"));
  const auto took = steady_clock::now() - begin;
  EXPECT_GE(took, 90ms) << "the clock counts in some milliseconds";
  EXPECT_LT(took, 10s) << "one match, of a fraction of a second, is not interrupted";
}

TEST(work_limit, ends_one_long_piece) {
  auto json = small_tokenizer();
  json.erase("pre_tokenizer"); // nothing cuts it
  const auto whole = tokenizer::parse(json.dump(), "", "folder");
  std::string text;
  while (text.size() < 4UL << 20U)
    text += "ab"; // each pair is merged
  const limited_work limit(20ms, nullptr);
  EXPECT_THAT([&] { whole->encode(text, false); }, ThrowsMessage<text_error>("it takes more than 20 ms"));
}

TEST(work_limit, ends_with_the_client) {
  const auto slow = with_pattern(slow_pattern);
  const std::string text(256UL << 10U, 'a');
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool> begun = false;
  std::thread client([&] {
    while (!begun)
      std::this_thread::yield();
    *cancelled = true;
  });
  {
    const limited_work limit(60s, cancelled);
    begun = true;
    EXPECT_THROW(slow->encode(text, false), work_cancelled);
  }
  client.join();
}

TEST(work_limit, is_this_threads_and_ends_with_its_scope) {
  const auto fine = with_pattern("a");
  {
    const limited_work limit(0ms, std::make_shared<std::atomic<bool>>(true));
    EXPECT_THROW(fine->encode("abab", false), work_cancelled);
    std::thread([&] { EXPECT_EQ(fine->encode("ab", false).size(), 2U); }).join();
  }
  EXPECT_EQ(fine->encode("abab", false).size(), 4U);
}

} // namespace

} // namespace troupe::text
