#include "services/gateway/openai/stop_matcher.hpp"

#include <random>

#include <gtest/gtest.h>

using troupe::openai::stop_matcher;

namespace {

/// A matcher's output for `text` in pieces of `size` bytes, and the stop string it found.
std::pair<std::string, std::string> feed(stop_matcher matcher, const std::string& text, std::size_t size) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += size)
    out += matcher.push(text.substr(at, size));
  const std::string found = matcher.found().value_or("");
  return {out + matcher.flush(), found};
}

/// The definition, by search: the match that ends first, the longest of those.
std::pair<std::string, std::string> reference(const std::vector<std::string>& stops,
                                              const std::string& text) {
  std::size_t best_end = std::string::npos;
  std::string best;
  for (const std::string& stop : stops)
    if (const std::size_t at = text.find(stop); at != std::string::npos) {
      const std::size_t end = at + stop.size();
      if (best.empty() || end < best_end || (end == best_end && stop.size() > best.size())) {
        best_end = end;
        best = stop;
      }
    }
  return {best.empty() ? text : text.substr(0, best_end - best.size()), best};
}

} // namespace

TEST(stop_matcher, lets_everything_through_without_stops) {
  stop_matcher matcher{{}};
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.flush(), "");
  EXPECT_FALSE(matcher.found());
}

TEST(stop_matcher, holds_back_what_may_be_a_beginning) {
  stop_matcher matcher{{"END"}};
  EXPECT_EQ(matcher.push("text E"), "text ");
  EXPECT_EQ(matcher.push("N"), "");
  EXPECT_EQ(matcher.push("ough"), "ENough");
  EXPECT_EQ(matcher.push("EN"), "");
  EXPECT_EQ(matcher.flush(), "EN");
}

TEST(stop_matcher, cuts_at_a_stop_across_pieces) {
  stop_matcher matcher{{"\n\n", "END"}};
  EXPECT_EQ(matcher.push("one\n"), "one");
  EXPECT_EQ(matcher.push("\ntwo"), "");
  EXPECT_EQ(matcher.found(), "\n\n");
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(stop_matcher, includes_the_stop_when_asked) {
  stop_matcher matcher{{"END"}, true};
  EXPECT_EQ(matcher.push("an E"), "an ");
  EXPECT_EQ(matcher.push("ND here"), "END");
}

TEST(stop_matcher, finds_overlapping_beginnings) {
  EXPECT_EQ(feed(stop_matcher{{"aab"}}, "aaaab", 1), (std::pair<std::string, std::string>{"aa", "aab"}));
  EXPECT_EQ(feed(stop_matcher{{"abcabd"}}, "abcabcabd!", 2),
            (std::pair<std::string, std::string>{"abc", "abcabd"}));
}

TEST(stop_matcher, the_longest_of_two_that_end_together_wins) {
  EXPECT_EQ(feed(stop_matcher{{"d", "end"}}, "the end", 1),
            (std::pair<std::string, std::string>{"the ", "end"}));
}

TEST(stop_matcher, a_stop_that_may_not_count_is_text) {
  stop_matcher matcher{{"xx"}};
  EXPECT_EQ(matcher.push("axx", false), "ax"); // the last x may begin another
  EXPECT_FALSE(matcher.found());
  EXPECT_EQ(matcher.push("x"), "");
  EXPECT_EQ(matcher.found(), "xx");
}

TEST(stop_matcher, agrees_with_a_search_whatever_the_pieces) {
  std::mt19937 random{7};
  const auto word = [&random](std::size_t most) {
    std::string text;
    for (std::size_t n = 1 + random() % most; n > 0; --n)
      text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> stops;
    for (std::size_t n = random() % 4; n > 0; --n)
      stops.push_back(word(5));
    const std::string text = word(24);
    const auto expected = reference(stops, text);
    for (const std::size_t size : {1U, 2U, 5U, 24U})
      ASSERT_EQ(feed(stop_matcher{stops}, text, size), expected)
          << "round " << round << ", pieces of " << size;
  }
}
