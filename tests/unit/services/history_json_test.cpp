// The activation history as JSON: one cluster's page is another one's initial history.
#include "services/history/history_json.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe {
namespace {

using ::testing::HasSubstr;

history_snapshot sample_history() {
  return {"mo\"del",
          {3, 0, 1},
          600'000,
          10'000,
          8,
          1ULL << 62U,
          {{0.1, 1e-310, 123456789.123456789}, {}, {0}},
          {{{0xfedcba9876543210}, 3, 5000, encode({5000, {3, 2, {{0, 4, max_window_number}, {}, {0}}}})},
           {{1}, 1, 10'000, encode({5000, {5, 1, {{0, 0, 0}, {}, {9}}}})}}};
}

/// What is wrong with a text.
std::string flaw_in(const std::string& text) {
  try {
    parse_history_json(text);
  } catch (const std::runtime_error& flaw) {
    return flaw.what();
  }
  return "nothing";
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(history_json_test, comes_back_as_it_was) {
  EXPECT_EQ(parse_history_json(history_json(sample_history())), sample_history());
}

TEST(history_json_test, looks_as_documented) {
  history_snapshot history{
      "model", {2, 0}, 600'000,        5'000,
      2,       4,      {{3, 0.5}, {}}, {{{10}, 1, 5'000, encode({5'000, {2, 1, {{0, 4}, {}}}})}}};
  EXPECT_EQ(
      history_json(history),
      R"({"format":"troupe-history 1","fingerprint":"model","layer_experts":[2,0],"half_life_ms":600000,)"
      R"("age_ms":5000,"tokens":2,"rows":4,"decayed":[[3,0.5],[]],"windows":[)"
      R"({"worker":"000000000000000a","sequence":1,"at_ms":5000,"duration_ms":5000,"tokens":2,)"
      R"("micro_batches":1,"rows":[[1,4],[]]}]})");
}

TEST(history_json_test, errors_say_what_is_wrong_and_where) {
  const auto sound = history_json(sample_history());
  EXPECT_EQ(flaw_in(sound), "nothing");
  EXPECT_THAT(flaw_in(""), HasSubstr("it is no JSON"));
  EXPECT_THAT(flaw_in(sound.substr(0, sound.size() / 2)), HasSubstr("it is no JSON"));
  EXPECT_EQ(flaw_in("[]"), "it is no JSON object");
  EXPECT_EQ(flaw_in("{}"), "'format' is missing");
  EXPECT_EQ(flaw_in(replaced(sound, "troupe-history 1", "troupe-history 2")),
            "'format' is not 'troupe-history 1'");
  EXPECT_THAT(flaw_in(replaced(sound, "[3,0,1]", "[3,0,1.5]")),
              HasSubstr("'layer_experts[2]' is no whole number"));
  EXPECT_THAT(flaw_in(replaced(sound, "[3,0,1]", "[3,0,-1]")),
              HasSubstr("'layer_experts[2]' is no whole number"));
  EXPECT_EQ(flaw_in(replaced(sound, "[3,0,1]", "[1048576,0,1]")),
            "'layer_experts' has more than 1048576 experts");
  EXPECT_THAT(flaw_in(history_json({})), HasSubstr("out of range")) << "nothing was counted";
  EXPECT_EQ(flaw_in(replaced(sound, "[3,0,1]", "[3,0]")), "'decayed' is no array of 2");
  EXPECT_EQ(flaw_in(replaced(sound, "[3,0,1]", "[2,0,1]")), "'decayed[0]' is no array of 2");
  EXPECT_EQ(flaw_in(replaced(sound, "[[0.1,", "[[true,")), "'decayed[0][0]' is no number");
  EXPECT_EQ(flaw_in(replaced(sound, "[[0.1,", "[[-0.1,")), "layer 0 has decayed rows that are no amount");
  EXPECT_EQ(flaw_in(replaced(sound, "\"sequence\"", "\"number\"")), "'windows[0].sequence' is missing");
  EXPECT_EQ(flaw_in(replaced(sound, "\"micro_batches\"", "\"batches\"")), "nothing")
      << "of an earlier version";
  EXPECT_EQ(flaw_in(replaced(sound, "\"fedcba9876543210\"", "5")), "'windows[0].worker' is no text");
  EXPECT_EQ(flaw_in(replaced(sound, "[],[0,9]]", "[0,9]]")), "'windows[1].rows' is no array of 3");
  EXPECT_EQ(flaw_in(replaced(sound, "fedcba", "fxdcba")), "'windows[0].worker' is no id in hexadecimal");
  EXPECT_EQ(flaw_in(replaced(sound, "[0,9]", "[1,9]")), "'windows[1].rows[2]' names expert 1 of 1");
  EXPECT_EQ(flaw_in(replaced(sound, "[0,9]", "[0,9,0]")),
            "'windows[1].rows[2]' has an expert without its rows");
  EXPECT_THAT(flaw_in(replaced(sound, "[0,9]", "[0,2000000000000]")),
              HasSubstr("'windows[1].rows[2]' is no whole"));
}

TEST(history_json_test, a_file_is_named_where_it_cannot_be_used) {
  const auto file = std::filesystem::path{::testing::TempDir()} / "troupe-history-json-test.json";
  const auto flaw_in_file = [&] {
    try {
      read_history_file(file.string());
    } catch (const std::runtime_error& flaw) {
      return std::string{flaw.what()};
    }
    return std::string{};
  };
  std::filesystem::remove(file);
  EXPECT_EQ(flaw_in_file(), "--history: cannot read " + file.string());
  std::ofstream{file} << "{}";
  EXPECT_EQ(flaw_in_file(), "--history: " + file.string() + " is no activation history: 'format' is missing");
  std::ofstream{file} << history_json(sample_history());
  EXPECT_EQ(read_history_file(file.string()), sample_history());
  std::filesystem::remove(file);
}

} // namespace
} // namespace troupe
