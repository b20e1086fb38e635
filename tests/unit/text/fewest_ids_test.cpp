// The lower bound on a text's ids, from its bytes: never more than encoding gives.
#include "services/gateway/text/tokenizer.hpp"
#include "tests/unit/text/small_tokenizer.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace troupe::text {

namespace {

using nlohmann::json;

std::shared_ptr<const tokenizer> made_of(const json& value) {
  return tokenizer::parse(value.dump(), "", "folder");
}

/// The small one with all 256 bytes, so that nothing is dropped.
json complete_tokenizer() {
  auto out = small_tokenizer();
  auto& vocab = out["model"]["vocab"];
  const auto add = [&vocab](const std::string& token) {
    if (!vocab.contains(token))
      vocab[token] = 100 + vocab.size();
  };
  // The alphabet: printable bytes stand for themselves, the others from U+0100 on.
  const auto add_character = [&](unsigned value) {
    std::string character;
    if (value < 0x80)
      character = static_cast<char>(value);
    else
      character = {static_cast<char>(0xC0U | (value >> 6U)), static_cast<char>(0x80U | (value & 0x3FU))};
    add(character);
  };
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    add_character(printable ? byte : next++);
  }
  return out;
}

json fallback_tokenizer(const std::string& type) {
  auto out = json::parse(R"({"model": {"byte_fallback": true}})");
  auto& model = out["model"];
  model["type"] = type;
  std::vector<std::string> entries{"<unk>", "a", "b", "ab", "\u2581"};
  for (unsigned byte = 0; byte < 256; ++byte) {
    constexpr const char* digits = "0123456789ABCDEF";
    entries.push_back(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
  }
  if (type == "BPE") {
    model["unk_token"] = "<unk>";
    model["fuse_unk"] = true;
    model["merges"] = {"a b"};
    for (std::size_t i = 0; i < entries.size(); ++i)
      model["vocab"][entries[i]] = i;
  } else {
    model["unk_id"] = 0;
    for (const auto& entry : entries)
      model["vocab"].push_back(json::array({entry, -1.0}));
  }
  return out;
}

const std::vector<std::string> texts{
    "",
    "ab",
    "abababababababab ab ab",
    "<s><s><s><tag>",
    std::string(1000, ' '),
    "K\u212A\u212A\u212A\u212A\u212A\u212A\u212A\u212A\u212A\u212A\u212A\u212A",
    "\u1100\u1161\u11A8\u1100\u1161\u11A8\u1100\u1161\u11A8\u1100\u1161\u11A8",
    "\U0001D400\U0001D400\U0001D400\U0001D400\U0001D400\U0001D400\U0001D400",
    "e\u0301\u0301\u0301\u0301\u0301",
    "\x01\x02 \u4F60\u597D",
};

void expect_sound(const json& value) {
  const auto t = made_of(value);
  for (const auto& text : texts) {
    const auto fewest = t->fewest_ids(text);
    EXPECT_LE(fewest, t->encode(text, false).size()) << text;
    EXPECT_LE(fewest, t->encode(text, true).size()) << text;
  }
}

std::size_t fewest_of(const json& value, const std::string& text = std::string(4000, 'a')) {
  expect_sound(value);
  return made_of(value)->fewest_ids(text);
}

TEST(fewest_ids, is_bytes_over_the_longest_token) {
  // "<tag>" has five bytes, as an entry or added; the vocabulary's own longest is " ab".
  EXPECT_EQ(fewest_of(complete_tokenizer()), 800U);
  EXPECT_EQ(fewest_of(complete_tokenizer(), "aaaaa"), 1U);
  EXPECT_EQ(fewest_of(complete_tokenizer(), "aaaaaa"), 2U);
  EXPECT_EQ(fewest_of(complete_tokenizer(), ""), 0U);
  EXPECT_EQ(fewest_of(fallback_tokenizer("BPE")), 666U + 1U) << "'<0x00>' is an entry of six bytes";
  EXPECT_EQ(fewest_of(fallback_tokenizer("Unigram")), 666U + 1U);
}

TEST(fewest_ids, allows_for_what_a_normalizer_shortens) {
  const std::string other = std::string(3997, 'a') + "\u4F60";
  auto changed = complete_tokenizer();
  EXPECT_EQ(fewest_of(changed, other), 4000 / 20U) << "NFC";
  changed["normalizer"] = nullptr;
  EXPECT_EQ(fewest_of(changed, other), 800U);
  changed["normalizer"] =
      json::parse(R"({"type": "Replace", "pattern": {"String": "aaa"}, "content": "bb"})");
  EXPECT_EQ(fewest_of(changed), 400U) << "three bytes of two are at most doubled";
  // The output of a Replace may be non-ASCII, and shrink in turn.
  changed["normalizer"] = json::parse(R"({"type": "Sequence", "normalizers": [
    {"type": "Replace", "pattern": {"String": "aaa"}, "content": "\u212A"}, {"type": "NFC"}]})");
  EXPECT_EQ(fewest_of(changed), 4000 / 20U);
}

TEST(fewest_ids, knows_nothing_where_text_can_vanish) {
  const auto with = [](const char* member, const char* value) {
    auto changed = complete_tokenizer();
    changed[member] = json::parse(value);
    return changed;
  };
  EXPECT_EQ(fewest_of(with("normalizer", R"({"type": "Strip", "strip_left": true, "strip_right": true})")),
            0U);
  EXPECT_EQ(fewest_of(with("normalizer", R"({"type": "StripAccents"})")), 0U);
  EXPECT_EQ(fewest_of(with("normalizer", R"({"type": "Nmt"})")), 0U);
  EXPECT_EQ(
      fewest_of(with("normalizer", R"({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"})")),
      0U);
  EXPECT_EQ(
      fewest_of(with("normalizer", R"({"type": "Replace", "pattern": {"String": "a"}, "content": ""})")), 0U);
  EXPECT_EQ(
      fewest_of(with("pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})")),
      0U);
  EXPECT_EQ(fewest_of(with("post_processor", R"({"type": "TemplateProcessing", "single":
    [{"SpecialToken": {"id": "<s>", "type_id": 0}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [8]}}})")),
            0U);
  auto blanks = complete_tokenizer();
  blanks["added_tokens"][0]["rstrip"] = true;
  EXPECT_EQ(fewest_of(blanks), 0U) << "one token may have any number of blanks behind it";
  EXPECT_EQ(fewest_of(small_tokenizer()), 0U)
      << "without an unknown token, characters that it lacks are dropped";
  auto fused = fallback_tokenizer("BPE");
  fused["model"]["byte_fallback"] = false;
  EXPECT_EQ(fewest_of(fused), 0U) << "a run of unknown characters is one";
  fused["model"]["fuse_unk"] = false;
  EXPECT_EQ(fewest_of(fused), 667U);
  auto unigram = fallback_tokenizer("Unigram");
  unigram["model"]["byte_fallback"] = false;
  EXPECT_EQ(fewest_of(unigram), 0U);
}

} // namespace

} // namespace troupe::text
