// Characters that a normalizer lengthens, at every place of a text: ids must equal those of Hugging Face's
// own implementation, which tests/golden/tokenizers/lengthened.mjs wrote to the golden file. That script also
// prints the ids of a single code point.

#include "services/gateway/text/tokenizer.hpp"
#include "services/gateway/text/unicode.hpp"
#include "tests/unit/text/golden_files.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::text {

namespace {

using nlohmann::json;

const json& golden() {
  static const json read = json::parse(read_file(golden_dir / "lengthened.json"));
  return read;
}

std::string block_name(char32_t code_point) {
  char digits[8];
  const auto end = std::to_chars(digits, digits + sizeof digits, code_point >> 8U, 16).ptr;
  return {digits, end};
}

/// Whether a block is tested in this build. Sanitizers check code, not tables, and are ten times slower:
/// their builds test every eighth block.
bool is_tried(const std::string& block) {
#if defined(TROUPE_SANITIZED)
  return std::stoul(block, nullptr, 16) % 8 == 0;
#else
  return !block.empty();
#endif
}

/// The place's text with the character in it.
std::string put(std::string place, const std::string& character) {
  for (auto at = place.find("{}"); at != std::string::npos; at = place.find("{}", at + character.size()))
    place.replace(at, 2, character);
  return place;
}

/// FNV-1a of the ids, as the generator's.
json hashes(const tokenizer& t, const json& ranges) {
  const auto places = golden().at("places").get<std::vector<std::string>>();
  std::map<std::string, std::uint32_t> out;
  const auto add = [](std::uint32_t& hash, std::int32_t id) {
    hash = (hash ^ static_cast<std::uint32_t>(id)) * 0x01000193U;
  };
  for (const auto& range : ranges) {
    for (auto c = range.at(0).get<char32_t>(); c <= range.at(1).get<char32_t>(); ++c) {
      const auto block = block_name(c);
      if (!is_tried(block))
        continue;
      std::string character;
      append_utf8(character, c);
      auto& hash = out.try_emplace(block, 0x811c9dc5U).first->second;
      for (const auto& place : places) {
        add(hash, -1);
        const auto text = put(place, character);
        try {
          for (const auto id : t.encode(text, false))
            add(hash, id);
        } catch (const std::exception& e) {
          ADD_FAILURE() << "'" << text << "': " << e.what();
        }
      }
    }
  }
  return out;
}

void expect_hashes(const json& got, const json& expected) {
  std::size_t tried = 0;
  for (const auto& [block, hash] : expected.items()) {
    if (!is_tried(block))
      continue;
    ++tried;
    EXPECT_EQ(got.at(block), hash) << "code points " << block << "00 to " << block << "ff (hexadecimal)";
  }
  EXPECT_GT(tried, 0U);
  EXPECT_EQ(got.size(), tried);
}

// A reported bug: NFC makes four characters of two, before a regular expression that separates them.
TEST(lengthened, a_first_character_that_nfc_decomposes) {
  auto j = golden().at("base");
  j["normalizer"] = golden().at("normalizers").at("NFC");
  j["pre_tokenizer"] = golden().at("pre_tokenizers").at("code_points");
  const auto t = tokenizer::parse(j.dump(), "", "model");
  EXPECT_EQ(t->encode("\u095b\u0930\u0942\u0930", false), t->encode("\u091c\u093c\u0930\u0942\u0930", false));
}

class lengthened_text : public testing::TestWithParam<std::string> {};

TEST_P(lengthened_text, gives_the_golden_ids) {
  const auto& normalizer = GetParam();
  for (const auto& [pre_tokenizer, step] : golden().at("pre_tokenizers").items()) {
    SCOPED_TRACE(normalizer + "/" + pre_tokenizer);
    auto j = golden().at("base");
    j["normalizer"] = golden().at("normalizers").at(normalizer);
    j["pre_tokenizer"] = step;
    const auto t = tokenizer::parse(j.dump(), "", "model");
    expect_hashes(hashes(*t, golden().at("points").at(normalizer)),
                  golden().at("hashes").at(normalizer + "/" + pre_tokenizer));
  }
}

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> out;
  for (const auto& [key, value] : object.items())
    out.push_back(key);
  return out;
}

INSTANTIATE_TEST_SUITE_P(made, lengthened_text, testing::ValuesIn(keys_of(golden().at("normalizers"))),
                         [](const auto& test) { return test.param; });

class lengthened_published_text : public testing::TestWithParam<std::string> {};

TEST_P(lengthened_published_text, gives_the_golden_ids) {
  const auto dir = vocabulary_dir(GetParam());
  if (!dir)
    TROUPE_SKIP_UNFETCHED("the vocabulary of " + GetParam());
  expect_hashes(hashes(*tokenizer::parse(read_file(*dir / "tokenizer.json"), "", GetParam()),
                       golden().at("points").at("published")),
                golden().at("published").at(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(npm, lengthened_published_text, testing::ValuesIn(keys_of(golden().at("published"))),
                         [](const auto& test) { return test.param; });

} // namespace

} // namespace troupe::text
