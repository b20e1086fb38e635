#include "services/gateway/text/tokenizer.hpp"

#include "services/gateway/text/detokenizer.hpp"
#include "services/gateway/text/text_error.hpp"
#include "tests/unit/text/small_tokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

namespace troupe::text {

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::shared_ptr<const tokenizer> parse(const json& j, const std::string& config = "") {
  return tokenizer::parse(j.dump(), config, "model");
}

TEST(tokenizer, encodes_and_decodes) {
  const auto t = parse(small_tokenizer());
  EXPECT_THAT(t->encode("ab ab", true), ElementsAre(8, 3, 4));
  EXPECT_THAT(t->encode("ab ab", false), ElementsAre(3, 4));
  EXPECT_EQ(t->decode(std::vector<std::int32_t>{8, 3, 4}, false), "<s>ab ab");
  EXPECT_EQ(t->decode(std::vector<std::int32_t>{8, 3, 9, 4}, true), "ab<tag> ab");
}

TEST(tokenizer, finds_added_tokens_in_the_text) {
  const auto t = parse(small_tokenizer());
  EXPECT_THAT(t->encode("a<s>b<tag>", false), ElementsAre(0, 8, 1, 9));
}

TEST(tokenizer, knows_its_vocabulary) {
  const auto t =
      parse(small_tokenizer(), R"({"bos_token": "<s>", "eos_token": {"content": "<tag>"}, "pad_token": null,
                                             "unk_token": "nowhere"})");
  EXPECT_EQ(t->vocab_size(), 11) << "a special token that is only named is one";
  EXPECT_EQ(t->token_to_id("Ġab"), 4);
  EXPECT_EQ(t->token_to_id("<tag>"), 9);
  EXPECT_EQ(t->token_to_id("zz"), std::nullopt);
  EXPECT_EQ(t->id_to_token(4), "Ġab");
  EXPECT_EQ(t->id_to_token(10), "nowhere");
  EXPECT_EQ(t->id_to_token(11), "");
  EXPECT_EQ(t->id_to_token(-1), "");
  EXPECT_TRUE(t->is_special(8));
  EXPECT_TRUE(t->is_special(10));
  EXPECT_FALSE(t->is_special(9));
  EXPECT_FALSE(t->is_special(0));
  EXPECT_EQ(t->bos_id(), 8);
  EXPECT_EQ(t->eos_id(), 9);
  EXPECT_EQ(t->pad_id(), std::nullopt);
  EXPECT_EQ(t->unk_id(), 10);
}

TEST(tokenizer, gives_the_bytes_of_single_tokens) {
  const auto t = parse(small_tokenizer());
  EXPECT_EQ(t->token_bytes(4), " ab");
  EXPECT_EQ(t->token_bytes(5), "\xC3");
  EXPECT_EQ(t->token_text(5), "\uFFFD");
  EXPECT_EQ(t->token_bytes(8), "<s>");
  EXPECT_EQ(t->token_bytes(99), "");
}

TEST(tokenizer, ids_outside_the_vocabulary_stand_for_nothing) {
  const auto t = parse(small_tokenizer());
  EXPECT_EQ(t->decode(std::vector<std::int32_t>{-5, 3, 1'000'000'000, 0}, false), "aba");
}

TEST(tokenizer, malformed_utf8_reads_as_replacement_characters) {
  auto j = small_tokenizer();
  j["model"]["unk_token"] = "a"; // U+FFFD's bytes are no entries here
  const auto t = parse(j);
  EXPECT_EQ(t->encode("b\xff", false), t->encode("b\uFFFD", false));
  EXPECT_EQ(t->encode("\xe4\xbd"
                      "b",
                      false),
            t->encode("\uFFFD"
                      "b",
                      false));
  EXPECT_EQ(t->encode("\xed\xa0\x80", false), t->encode("\uFFFD\uFFFD\uFFFD", false));
}

TEST(tokenizer, a_very_long_text_is_refused) {
  const auto t = parse(small_tokenizer());
  EXPECT_THAT([&] { t->encode(std::string((64UL << 20U) + 1, 'a'), false); },
              ThrowsMessage<text_error>(HasSubstr("at most 67108864")));
}

TEST(tokenizer, catastrophic_regular_expressions_give_up) {
  auto j = small_tokenizer();
  j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a+)+(a+)+(a+)+$|(?=(a*)*b)x";
  const auto t = parse(j);
  EXPECT_THAT([&] { t->encode(std::string(5000, 'a') + "!", false); },
              ThrowsMessage<text_error>(HasSubstr("gives up on this text")));
}

TEST(tokenizer, encodes_from_many_threads) {
  const auto t = parse(small_tokenizer());
  const auto expected = t->encode("ab ab a b<tag>\n", true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k)
        EXPECT_EQ(t->encode("ab ab a b<tag>\n", true), expected);
    });
  }
  for (auto& thread : threads)
    thread.join();
}

TEST(tokenizer, a_word_means_the_same_when_seen_again) {
  const auto t = parse(small_tokenizer());
  std::string text;
  std::vector<std::int32_t> expected;
  for (int i = 0; i < 50'000; ++i) { // more words than the cache holds
    const std::string word(static_cast<std::size_t>(1 + i % 40), i % 3 == 0 ? 'a' : 'b');
    const auto ids = t->encode(word + "\n", false);
    text += word + "\n";
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(t->encode(text, false), expected);
}

TEST(detokenizer, never_gives_half_a_character) {
  const auto t = parse(small_tokenizer());
  detokenizer d(t);
  EXPECT_EQ(d.push(3), "ab");
  EXPECT_EQ(d.push(5), "");
  EXPECT_EQ(d.push(6), "é");
  EXPECT_EQ(d.push(8), "");
  EXPECT_EQ(d.push(5), "");
  EXPECT_EQ(d.push(0), "\uFFFD"
                       "a");
  EXPECT_EQ(d.push(5), "");
  EXPECT_EQ(d.flush(), "\uFFFD");
  EXPECT_EQ(d.push(3), "ab"); // as new
}

TEST(detokenizer, what_continues_a_text_keeps_the_blank_it_begins_with) {
  auto j = small_tokenizer();
  j["model"]["vocab"] = json::parse(R"({"▁a": 0, "b": 1, "▁c": 2})");
  j["model"]["merges"] = json::array();
  constexpr std::int32_t bos = 3; // behind the model's
  const std::vector<std::int32_t> only_special{bos};
  const std::vector<std::int32_t> text{bos, 0};
  for (const char* decoder :
       {R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
             {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})",
        R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})"}) {
    j["decoder"] = json::parse(decoder);
    const auto t = parse(j);
    ASSERT_EQ(t->token_to_id("<s>"), bos);
    EXPECT_EQ(detokenizer(t).push(2), "c");
    EXPECT_EQ(detokenizer(t, true, only_special).push(2), "c");
    EXPECT_EQ(detokenizer(t, true, text).push(2), " c");
    EXPECT_EQ(detokenizer(t, true, text).push(1), "b");
    EXPECT_EQ(detokenizer(t, false, only_special).push(2), " c"); // "<s>" is text then
  }
}

TEST(detokenizer, holds_a_run_of_bytes_until_it_ends) {
  auto j = small_tokenizer();
  j["decoder"] =
      json::parse(R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"},
    "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1,
    "stop": 0}]})");
  j["model"]["vocab"] = json::parse(R"({"▁a": 0, "<0xC3>": 1, "<0xA9>": 2, "b": 3})");
  j["model"]["merges"] = json::array();
  const auto t = parse(j);
  detokenizer d(t);
  EXPECT_EQ(d.push(0), "a");
  EXPECT_EQ(d.push(1), "");
  EXPECT_EQ(d.push(2), ""); // a malformed byte could still follow, which spoils them all
  EXPECT_EQ(d.push(0), "é a");
  EXPECT_EQ(d.push(1), "");
  EXPECT_EQ(d.push(3), "\uFFFD"
                       "b");
  EXPECT_EQ(d.push(2), "");
  EXPECT_EQ(d.flush(), "\uFFFD");
  EXPECT_EQ(t->token_bytes(1), "\xC3");
  EXPECT_EQ(t->token_bytes(0), " a");
}

struct bad_file {
  const char* name;
  std::function<void(json&)> change;
  const char* where;
  const char* what;
};

void PrintTo(const bad_file& x, std::ostream* out) {
  *out << x.name;
}

class malformed_tokenizer : public testing::TestWithParam<bad_file> {};

TEST_P(malformed_tokenizer, is_refused_with_file_and_path) {
  auto j = small_tokenizer();
  GetParam().change(j);
  EXPECT_THAT([&] { parse(j); },
              ThrowsMessage<text_error>(AllOf(testing::StartsWith("model/tokenizer.json: "),
                                              HasSubstr(GetParam().where), HasSubstr(GetParam().what))));
}

json step(const char* text) {
  return json::parse(text);
}

// Deeper than json_view allows, yet not too deep for json::dump, which is recursive, in a build with
// sanitizers.
json nested(const char* list) {
  constexpr int depth = 200;
  json j = {{"type", "Sequence"}, {list, json::array()}};
  for (int i = 0; i < depth; ++i) {
    json outer = {{"type", "Sequence"}, {list, json::array()}};
    outer[list].push_back(std::move(j));
    j = std::move(outer);
  }
  return j;
}

const bad_file bad_files[] = {
    {"not_an_object", [](json& j) { j = json::array(); }, "/: ", "an object is expected"},
    {"no_model", [](json& j) { j.erase("model"); }, "/: ", "'model' is missing"},
    {"null_model", [](json& j) { j["model"] = nullptr; }, "/: ", "'model' is missing"},
    {"unknown_model", [](json& j) { j["model"]["type"] = "WordPiece"; },
     "/model: ", "'WordPiece' is not supported"},
    {"no_vocab", [](json& j) { j["model"].erase("vocab"); }, "/model: ", "'vocab' is missing"},
    {"vocab_array", [](json& j) { j["model"]["vocab"] = json::array(); }, "/model/vocab: ", "an object"},
    {"vocab_text_id", [](json& j) { j["model"]["vocab"]["a"] = "0"; }, "/model/vocab/a: ", "a token id"},
    {"vocab_negative_id", [](json& j) { j["model"]["vocab"]["a"] = -1; }, "/model/vocab/a: ", "a token id"},
    {"vocab_huge_id", [](json& j) { j["model"]["vocab"]["a"] = 4294967295U; },
     "/model/vocab/a: ", "a token id"},
    {"vocab_same_id", [](json& j) { j["model"]["vocab"]["b"] = 0; },
     "/model/vocab/b: ", "belongs to another"},
    {"merge_unknown", [](json& j) { j["model"]["merges"][0] = "a z"; }, "/model/merges/0: ", "'z' is not in"},
    {"merge_joined_unknown", [](json& j) { j["model"]["merges"][0] = "b a"; },
     "/model/merges/0: ", "'ba' is not in"},
    {"merge_one_part", [](json& j) { j["model"]["merges"][0] = "ab"; }, "/model/merges/0: ", "one space"},
    {"merge_three_parts",
     [](json& j) {
       j["model"]["merges"][0] = json::array({"a", "b", "c"});
     },
     "/model/merges/0: ", "two entries"},
    {"merge_number", [](json& j) { j["model"]["merges"][0] = 7; }, "/model/merges/0: ", "an array"},
    {"dropout", [](json& j) { j["model"]["dropout"] = 0.1; }, "/model/dropout: ", "not supported"},
    {"unk_token", [](json& j) { j["model"]["unk_token"] = "zz"; },
     "/model/unk_token: ", "not in the vocabulary"},
    {"fuse_unk_text", [](json& j) { j["model"]["fuse_unk"] = "yes"; }, "/model/fuse_unk: ", "true or false"},
    {"unigram_pair", [](json& j) { j["model"] = step(R"({"type": "Unigram", "vocab": [["a"]]})"); },
     "/model/vocab/0: ", "an entry and its score"},
    {"unigram_score", [](json& j) { j["model"] = step(R"({"type": "Unigram", "vocab": [["a", "x"]]})"); },
     "/model/vocab/0/1: ", "a number"},
    {"unigram_unk",
     [](json& j) { j["model"] = step(R"({"type": "Unigram", "unk_id": 1, "vocab": [["a", 0]]})"); },
     "/model/unk_id: ", "not in the vocabulary"},
    {"added_not_array", [](json& j) { j["added_tokens"] = "x"; }, "/added_tokens: ", "an array"},
    {"added_without_flag", [](json& j) { j["added_tokens"][0].erase("lstrip"); },
     "/added_tokens/0: ", "'lstrip'"},
    {"added_id", [](json& j) { j["added_tokens"][0]["id"] = "8"; }, "/added_tokens/0/id: ", "a token id"},
    {"normalizer", [](json& j) { j["normalizer"]["type"] = "BertNormalizer"; },
     "/normalizer: ", "'BertNormalizer'"},
    {"normalizer_untyped", [](json& j) { j["normalizer"] = json::object(); },
     "/normalizer: ", "'type' is missing"},
    {"charsmap",
     [](json& j) { j["normalizer"] = step(R"({"type": "Precompiled", "precompiled_charsmap": "AAAA"})"); },
     "/normalizer/precompiled_charsmap: ", "truncated"},
    {"charsmap_base64",
     [](json& j) { j["normalizer"] = step(R"({"type": "Precompiled", "precompiled_charsmap": "?"})"); },
     "/normalizer/precompiled_charsmap: ", "base64"},
    {"pre_tokenizer", [](json& j) { j["pre_tokenizer"] = step(R"({"type": "BertPreTokenizer"})"); },
     "/pre_tokenizer: ", "'BertPreTokenizer'"},
    {"regex", [](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a"; },
     "/pre_tokenizer/pretokenizers/0/pattern/Regex: ", "regular expression '(a'"},
    {"regex_property",
     [](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\p{Nope}"; },
     "/pre_tokenizer/pretokenizers/0/pattern/Regex: ", "unknown property"},
    {"pattern_empty",
     [](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"] = step(R"({"String": ""})"); },
     "/pre_tokenizer/pretokenizers/0/pattern/String: ", "matches everywhere"},
    {"behavior", [](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Odd"; },
     "/pre_tokenizer/pretokenizers/0/behavior: ", "'Odd'"},
    {"metaspace", [](json& j) { j["pre_tokenizer"] = step(R"({"type": "Metaspace", "replacement": "ab"})"); },
     "/pre_tokenizer/replacement: ", "one character"},
    {"nested", [](json& j) { j["pre_tokenizer"] = nested("pretokenizers"); }, "/pre_tokenizer/",
     "too deeply"},
    {"post_processor", [](json& j) { j["post_processor"]["type"] = "Odd"; }, "/post_processor: ", "'Odd'"},
    {"template", [](json& j) { j["post_processor"]["special_tokens"] = json::object(); },
     "/post_processor/single/0/", "'<s>' is not among"},
    {"decoder", [](json& j) { j["decoder"]["type"] = "WordPiece"; },
     "/decoder: ", "'WordPiece' is not supported"},
    {"decoder_strip",
     [](json& j) { j["decoder"] = step(R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})"); },
     "/decoder/start: ", "non-negative"},
};

INSTANTIATE_TEST_SUITE_P(every, malformed_tokenizer, testing::ValuesIn(bad_files),
                         [](const auto& test) { return test.param.name; });

TEST(malformed_tokenizer, every_truncation_is_one_error) {
  const auto whole = small_tokenizer().dump();
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    EXPECT_THAT([&] { tokenizer::parse(whole.substr(0, size), "", "model"); },
                ThrowsMessage<text_error>(HasSubstr("model/tokenizer.json: not valid JSON")));
  }
}

TEST(malformed_tokenizer, the_configuration_is_named_too) {
  EXPECT_THAT([&] { parse(small_tokenizer(), "{"); },
              ThrowsMessage<text_error>(HasSubstr("model/tokenizer_config.json: not valid JSON")));
  EXPECT_THAT([&] { parse(small_tokenizer(), R"({"bos_token": 7})"); },
              ThrowsMessage<text_error>("model/tokenizer_config.json: /bos_token: a string is expected"));
}

TEST(malformed_tokenizer, a_missing_file_is_named) {
  EXPECT_THAT([&] { tokenizer::load("/nowhere"); },
              ThrowsMessage<text_error>("/nowhere/tokenizer.json: no such file"));
}

} // namespace

} // namespace troupe::text
