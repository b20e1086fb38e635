// Normal forms compared with utf8proc's, and how much they shorten a text.
#include "services/gateway/text/unicode.hpp"
#include "services/gateway/text/work_limit.hpp"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace troupe::text {

namespace {

constexpr std::array forms{normal_form::nfc, normal_form::nfd, normal_form::nfkc, normal_form::nfkd};

std::string of_library(const std::string& text, normal_form form) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.c_str());
  auto* mapped = form == normal_form::nfc    ? utf8proc_NFC(bytes)
                 : form == normal_form::nfd  ? utf8proc_NFD(bytes)
                 : form == normal_form::nfkc ? utf8proc_NFKC(bytes)
                                             : utf8proc_NFKD(bytes);
  std::string out = reinterpret_cast<const char*>(mapped);
  std::free(mapped); // NOLINT
  return out;
}

std::string utf8(char32_t value) {
  std::string out;
  append_utf8(out, value);
  return out;
}

/// All assigned characters; the others never change.
std::vector<std::string> all_characters() {
  std::vector<std::string> out;
  for (char32_t c = 1; c < 0x110000; ++c) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    if (category != UTF8PROC_CATEGORY_CN && category != UTF8PROC_CATEGORY_CO
        && category != UTF8PROC_CATEGORY_CS)
      out.push_back(utf8(c));
  }
  return out;
}

TEST(unicode, every_character_becomes_what_the_library_makes_of_it) {
  for (const auto& c : all_characters())
    for (const auto form : forms)
      ASSERT_EQ(normalize(c, form), of_library(c, form)) << c;
}

TEST(unicode, marks_are_ordered_as_the_library_orders_them) {
  // Bases, marks of several classes, characters that are made of marks, letters of Hangul.
  const std::vector<char32_t> some{'a',   'K',    0x212A, 0x301,  0x316,  0x327,  0x345,
                                   0x344, 0xF73,  0xF75,  0xFF9E, 0x334,  0x94D,  0x93C,
                                   0xE9,  0x1E69, 0x1100, 0x1161, 0x11A8, 0x1D400};
  std::mt19937 random{1}; // NOLINT: the same texts each time
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (int k = 0; k < 40; ++k)
      append_utf8(text, some[random() % some.size()]);
    for (const auto form : forms)
      ASSERT_EQ(normalize(text, form), of_library(text, form)) << text;
  }
}

TEST(unicode, millions_of_marks_take_no_square_of_time) {
  std::string text = "a";
  for (const char32_t mark : {U'\u0301', U'\u0316'}) // all of the first mark after all of the second
    for (int i = 0; i < 1'000'000; ++i)
      append_utf8(text, mark);
  // Quadratic time would be hours; the limit is checked on the way, but not while marks are sorted.
  const limited_work limit(std::chrono::minutes{1}, nullptr);
  const auto ordered = normalize(text, normal_form::nfd);
  EXPECT_EQ(ordered.size(), text.size());
  EXPECT_EQ(ordered.substr(1, 2), "\u0316");
  EXPECT_EQ(ordered.substr(ordered.size() - 2), "\u0301");
}

/// The longest text from which one character's parts are made: for each part the longest of the characters
/// that become that part alone.
class longest_sources {
 public:
  explicit longest_sources(normal_form decomposing) : decomposing_(decomposing) {
    for (const auto& c : all_characters()) {
      auto& most = longest_[normalize(c, decomposing)];
      most = std::max(most, c.size());
    }
  }

  std::size_t of(const std::string& character) const {
    const auto parts = normalize(character, decomposing_);
    std::size_t sum = 0;
    for (std::size_t at = 0; at < parts.size(); at += utf8_size(parts[at]))
      sum += longest_.at(parts.substr(at, utf8_size(parts[at])));
    return sum;
  }

 private:
  normal_form decomposing_;
  std::map<std::string, std::size_t> longest_;
};

TEST(unicode, a_normal_form_shortens_a_text_by_its_factor_at_most) {
  for (const bool compatibly : {false, true}) {
    const auto decomposing = compatibly ? normal_form::nfkd : normal_form::nfd;
    const auto composing = compatibly ? normal_form::nfkc : normal_form::nfc;
    const longest_sources sources(decomposing);
    for (const auto& c : all_characters()) {
      EXPECT_GE(sources.of(c), c.size()) << c << " is no longer than what its parts may come from";
      if (normalize(c, composing) == c || normalize(c, decomposing) == c) // may stand in a normalized text
        EXPECT_LE(sources.of(c), 4 * c.size()) << c;
    }
  }
  for (const auto& c : all_characters()) {
    std::string lower;
    append_lowercase(lower, decode_at(c, 0).value);
    EXPECT_LE(c.size(), 3 * lower.size()) << c;
  }
}

} // namespace

} // namespace troupe::text
