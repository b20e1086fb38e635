// Folders with a vocabulary in tiktoken's format. Ids must equal those of tiktoken itself, which
// tests/golden/tokenizers/tiktoken.mjs wrote to the golden files.

#include "services/gateway/text/byte_alphabet.hpp"
#include "services/gateway/text/detokenizer.hpp"
#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/tokenizer.hpp"
#include "services/gateway/text/unicode.hpp"
#include "tests/unit/text/golden_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using json = nlohmann::json;

std::string base64(std::string_view bytes) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const auto byte = [&](std::size_t i) {
      return i < bytes.size() ? static_cast<std::uint32_t>(static_cast<std::uint8_t>(bytes[i])) : 0;
    };
    const auto bits = (byte(at) << 16U) | (byte(at + 1) << 8U) | byte(at + 2);
    for (std::size_t i = 0; i < 4; ++i)
      out += at + i > bytes.size() ? '=' : alphabet[(bits >> (18U - 6U * static_cast<unsigned>(i))) & 63U];
  }
  return out;
}

std::string lines_of(const std::vector<std::string>& tokens) {
  std::string out;
  for (std::size_t rank = 0; rank < tokens.size(); ++rank)
    out += base64(tokens[rank]) + " " + std::to_string(rank) + "\n";
  return out;
}

/// The 256 bytes, and the given tokens after them.
std::vector<std::string> bytes_and(const std::vector<std::string>& more) {
  std::vector<std::string> out;
  for (unsigned byte = 0; byte < 256; ++byte)
    out.emplace_back(1, static_cast<char>(byte));
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

/// A model folder of one test.
class tiktoken_folder : public testing::Test {
 protected:
  tiktoken_folder() { std::filesystem::create_directories(folder_); }

  ~tiktoken_folder() override { std::filesystem::remove_all(folder_); }

  void put(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  /// A file of this class.
  std::shared_ptr<const tokenizer> kimi(const std::string& lines, json config = json::object()) const {
    put("tiktoken.model", lines);
    config["tokenizer_class"] = "TikTokenTokenizer";
    put("tokenizer_config.json", config.dump());
    return tokenizer::load(folder_);
  }

  std::shared_ptr<const tokenizer> hunyuan(const std::string& lines, json config = json::object()) const {
    put("hy.tiktoken", lines);
    config["tokenizer_class"] = "HYTokenizer";
    put("tokenizer_config.json", config.dump());
    return tokenizer::load(folder_);
  }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("tiktoken." + std::to_string(::getpid()));
};

void expect_golden(const tokenizer& t, const std::string& name, bool composed) {
  const auto lines = read_lines(golden_dir / "ids" / (name + ".jsonl"));
  ASSERT_GT(lines.size(), 200);
  const std::shared_ptr<const tokenizer> shared(std::shared_ptr<void>(), &t);
  for (const auto& line : lines) {
    const auto golden = json::parse(line);
    const auto text = golden.at(0).get<std::string>();
    const auto ids = golden.at(1).get<std::vector<std::int32_t>>();
    EXPECT_EQ(t.encode(text, true), ids) << text;
    const auto expected = composed ? normalize(text, normal_form::nfc) : text;
    EXPECT_EQ(t.decode(ids, false), expected);
    detokenizer stream(shared, false);
    std::string joined;
    for (const auto id : ids) {
      const auto part = stream.push(id);
      EXPECT_EQ(to_valid_utf8(part), part); // no part of a character
      joined += part;
    }
    EXPECT_EQ(joined + stream.flush(), expected);
  }
}

TEST_F(tiktoken_folder, ids_of_a_small_vocabulary_are_tiktokens) {
  const auto lines = read_file(golden_dir / "ids/small.tiktoken");
  expect_golden(*kimi(lines), "tiktoken-kimi-small", false);
  std::filesystem::remove(folder_ / "tiktoken.model");
  expect_golden(*hunyuan(lines), "tiktoken-hunyuan-small", true);
}

TEST_F(tiktoken_folder, ids_of_a_published_vocabulary_are_tiktokens) {
  const auto dir = vocabulary_dir("gpt4o");
  if (!dir)
    TROUPE_SKIP_UNFETCHED("the vocabulary of gpt4o");
  const auto published = json::parse(read_file(*dir / "tokenizer.json"));
  std::vector<std::string> tokens;
  for (const auto& [token, id] : published.at("model").at("vocab").items()) {
    const auto rank = id.get<std::size_t>();
    if (rank >= tokens.size())
      tokens.resize(rank + 1);
    tokens[rank] = *from_byte_level(token);
  }
  tokens.erase(std::find(tokens.begin(), tokens.end(), ""), tokens.end()); // special tokens come after a gap
  const auto lines = lines_of(tokens);
  expect_golden(*kimi(lines), "tiktoken-kimi-gpt4o", false);
  std::filesystem::remove(folder_ / "tiktoken.model");
  expect_golden(*hunyuan(lines), "tiktoken-hunyuan-gpt4o", true);
}

TEST_F(tiktoken_folder, the_order_of_the_lines_and_their_ends_do_not_matter) {
  auto lines = lines_of(bytes_and({"ab", "abc"}));
  lines = base64("bc") + " 258\r\n\n" + lines + "\n";
  const auto last = base64("abc") + " 257\n";
  lines.replace(lines.find(last), last.size(), base64("abc") + " 257");
  EXPECT_THAT(kimi(lines)->encode("abc bc ab", false), ElementsAre(257, ' ', 258, ' ', 256));
}

// A published folder's list, shortened.
TEST_F(tiktoken_folder, special_tokens_are_those_of_the_configuration) {
  const auto t = kimi(lines_of(bytes_and({"[EOS]"})), json::parse(R"({
    "added_tokens_decoder": {
      "257": {"content": "[BOS]", "special": true, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false},
      "258": {"content": "[EOS]", "special": true, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false},
      "259": {"content": "<|im_end|>", "special": true},
      "268": {"content": "<|tool_calls_section_begin|>", "special": false},
      "512": {"content": "[PAD]", "special": true}},
    "bos_token": "[BOS]", "eos_token": "[EOS]", "pad_token": "[PAD]", "additional_special_tokens": ["<|im_end|>"]})"));
  EXPECT_EQ(t->bos_id(), 257);
  EXPECT_EQ(t->eos_id(), 258); // although its text is an entry too
  EXPECT_EQ(t->pad_id(), 512);
  EXPECT_EQ(t->vocab_size(), 513);
  EXPECT_THAT(t->encode("[EOS]<|im_end|><|reserved_token_260|>a<|tool_calls_section_begin|>", true),
              ElementsAre(258, 259, 260, 'a', 268)); // and no BOS
  EXPECT_EQ(t->decode(std::vector<std::int32_t>{257, 'a', 260, 268, 512}, true),
            "a<|reserved_token_260|><|tool_calls_section_begin|>");
  EXPECT_TRUE(t->differences().empty());
}

TEST_F(tiktoken_folder, hunyuan_has_special_tokens_of_its_own) {
  const auto t =
      hunyuan(lines_of(bytes_and({})), {{"eos_token", "<|eos|>"}, {"bos_token", "<|startoftext|>"}});
  EXPECT_EQ(t->bos_id(), 257);
  EXPECT_EQ(t->eos_id(), 259);
  EXPECT_EQ(t->token_to_id("<|extra_204|>"), 256 + 5 + 204);
  EXPECT_EQ(t->vocab_size(), 256 + 5 + 205);
  EXPECT_THAT(t->encode("<|startoftext|>e\u0301<|extra_0|>", true), ElementsAre(257, 0xC3, 0xA9, 261));
  EXPECT_EQ(t->decode(std::vector<std::int32_t>{257, 'a', 261}, true), "a");
}

TEST_F(tiktoken_folder, texts_without_a_blank_are_cut_as_kimis_class_does) {
  const auto lines = lines_of(bytes_and({"ab", "  "}));
  std::string run = "c"; // so that the cut after 25,000 characters is within a pair
  for (int i = 0; i < 13'000; ++i)
    run += "ab";
  const auto with_cut = kimi(lines)->encode(run + std::string(25'001, ' ') + run, false);
  std::vector<std::int32_t> expected;
  const auto expect_run = [&] {
    expected.push_back('c');
    for (int i = 0; i < 13'000; ++i)
      if (i == 12'499)
        expected.insert(expected.end(), {'a', 'b'});
      else
        expected.push_back(256);
  };
  expect_run();
  expected.insert(expected.end(), 12'500, 257);
  expected.push_back(' '); // a part of its own, which the pattern would have given to the word after it
  expect_run();
  EXPECT_EQ(with_cut, expected);
  std::filesystem::remove(folder_ / "tiktoken.model");
  expected.assign(13'001, 256);
  expected.front() = 'c';
  EXPECT_EQ(hunyuan(lines)->encode(run, false), expected);
}

TEST_F(tiktoken_folder, a_text_is_cut_after_400000_characters_as_kimis_class_does) {
  std::string text; // words of two characters of three bytes
  for (int i = 0; i < 133'334; ++i)
    text += "漢字 ";
  // The piece that begins there is "字 漢…" of the uncut text; the pattern joins Han characters only with Han
  // ones.
  const auto ids = kimi(lines_of(bytes_and({"漢", "字", "漢字"})))->encode(text, false);
  ASSERT_EQ(ids.size(), 133'334 * 2 + 1U);
  EXPECT_THAT(std::vector<std::int32_t>(ids.begin() + 133'332 * 2, ids.end()),
              ElementsAre(258, ' ', 256, 257, ' '));
}

TEST_F(tiktoken_folder, a_tokenizer_json_wins) {
  put("tokenizer.json", "{");
  EXPECT_THAT([&] { kimi(lines_of(bytes_and({}))); },
              ThrowsMessage<text_error>(HasSubstr("tokenizer.json: not valid JSON")));
}

TEST_F(tiktoken_folder, other_classes_are_refused_by_name) {
  put("tiktoken.model", lines_of(bytes_and({})));
  put("tokenizer_config.json", R"({"tokenizer_class": "OtherTokenizer"})");
  const auto known = "; only that of TikTokenTokenizer, HYTokenizer is known";
  const auto written =
      file("tiktoken.model") + ": how texts are cut for this vocabulary is written in the Python of ";
  EXPECT_THAT([&] { tokenizer::load(folder_); },
              ThrowsMessage<text_error>(written + "tokenizer_class 'OtherTokenizer'" + known));
  std::filesystem::remove(folder_ / "tokenizer_config.json");
  EXPECT_THAT([&] { tokenizer::load(folder_); },
              ThrowsMessage<text_error>(written + "a class that " + file("tokenizer_config.json")
                                        + " does not name (tokenizer_class)" + known));
}

TEST_F(tiktoken_folder, damaged_files_are_refused_with_the_line) {
  const auto whole = lines_of(bytes_and({"ab"}));
  const auto expect_refused = [&](const std::string& lines, const std::string& why) {
    EXPECT_THAT([&] { kimi(lines); }, ThrowsMessage<text_error>(file("tiktoken.model") + ": " + why));
  };
  expect_refused(whole + "YWJj I=", "line 258: 'I=' is no rank");
  expect_refused(whole + "YWI", "line 258: a token in base64, a space and a rank are expected");
  expect_refused(whole + "YWJj! 257", "line 258: not valid base64");
  expect_refused(whole + "YWJ 257", "line 258: not valid base64");
  expect_refused(whole + "Y*Jj 257", "line 258: not valid base64");
  expect_refused(whole + "==== 257", "line 258: a token is empty");
  expect_refused(whole + "YWJj -1", "line 258: '-1' is no rank");
  expect_refused(whole + "YWJj 25x", "line 258: '25x' is no rank");
  expect_refused(whole + "YWJj 99999999", "line 258: rank 99999999 is not believable");
  expect_refused(whole + "YWJj 256", "line 258: rank 256 occurs twice");
  expect_refused(whole + "YWI= 257", "line 258: the token occurs twice, with rank 256 and 257");
  expect_refused(whole + "YWJj 258", "rank 257 is missing");
  expect_refused(whole.substr(whole.find('\n') + 1), "rank 0 is missing");
  expect_refused("", "the byte 0x00 is no token");
  auto without = bytes_and({});
  without['Z'] = "ab";
  expect_refused(lines_of(without), "the byte 0x5A is no token");
}

TEST_F(tiktoken_folder, special_tokens_that_cannot_be_are_refused) {
  const auto lines = lines_of(bytes_and({}));
  const auto config = file("tokenizer_config.json");
  const auto listed = [&](const char* id, const char* content) {
    kimi(lines, {{"added_tokens_decoder", {{id, {{"content", content}}}}}});
  };
  EXPECT_THAT(
      [&] { listed("255", "[BOS]"); },
      ThrowsMessage<text_error>(config
                                + ": /added_tokens_decoder: '[BOS]' has id 255; after the 256 tokens of "
                                  "tiktoken.model, TikTokenTokenizer has special ones up to 511"));
  EXPECT_THAT([&] { listed("512", "[BOS]"); }, ThrowsMessage<text_error>(HasSubstr("'[BOS]' has id 512")));
  EXPECT_THAT([&] { listed("256", "<|reserved_token_300|>"); },
              ThrowsMessage<text_error>(HasSubstr("the special token '<|reserved_token_300|>' has two ids")));
  EXPECT_THAT(
      [&] {
        kimi(lines, {{"eos_token", "[EOS]"}});
      },
      ThrowsMessage<text_error>(HasSubstr("'[EOS]' is none of the special tokens of TikTokenTokenizer")));
}

} // namespace

} // namespace troupe::text
