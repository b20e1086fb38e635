// The additions of tokenizer_config.json and special_tokens_map.json to a tokenizer.json.

#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/tokenizer.hpp"
#include "tests/unit/text/small_tokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::text {

namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::ThrowsMessage;

// Of small_tokenizer: "a" is 0, "<s>" 8 and "<tag>" 9; its post-processor puts "<s>" before.
std::shared_ptr<const tokenizer> parse(const json& config, const json& map = {},
                                       const json& file = small_tokenizer()) {
  return tokenizer::parse(file.dump(), config.is_null() ? "" : config.dump(), "model",
                          map.is_null() ? "" : map.dump());
}

TEST(tokenizer_config, special_tokens_map_json_names_what_the_configuration_lacks) {
  const json map = {{"bos_token", {{"content", "<s>"}, {"lstrip", false}}}, {"eos_token", "<tag>"}};
  for (const auto& config :
       {json(), json::object(), json{{"eos_token", nullptr}, {"added_tokens_decoder", {}}},
        json{{"added_tokens_decoder", json::object()}}}) {
    const auto t = parse(config, map);
    EXPECT_EQ(t->bos_id(), 8) << config;
    EXPECT_EQ(t->eos_id(), 9) << config;
    EXPECT_EQ(t->pad_id(), std::nullopt) << config;
  }
}

TEST(tokenizer_config, the_newer_of_the_two_files_wins) {
  const json map = {{"eos_token", "<tag>"}};
  EXPECT_EQ(parse({{"eos_token", "<s>"}}, map)->eos_id(), 9);
  EXPECT_EQ(parse({{"eos_token", "<s>"}, {"added_tokens_decoder", json::object()}}, map)->eos_id(), 8);
}

TEST(tokenizer_config, a_malformed_file_is_named_with_its_path) {
  EXPECT_THAT(
      [] {
        parse({}, {{"eos_token", {{"content", 7}}}});
      },
      ThrowsMessage<text_error>("model/special_tokens_map.json: /eos_token/content: a string is expected"));
  EXPECT_THAT([] { parse({}, json::array()); },
              ThrowsMessage<text_error>("model/special_tokens_map.json: /: an object is expected"));
  EXPECT_THAT([] { parse(json::array()); },
              ThrowsMessage<text_error>("model/tokenizer_config.json: /: an object is expected"));
}

TEST(tokenizer_config, some_classes_make_their_post_processor_of_add_bos_token_and_add_eos_token) {
  const auto ids = [](json config) {
    config["bos_token"] = "<s>";
    config["eos_token"] = "<tag>";
    return parse(config)->encode("a", true);
  };
  for (const char* name : {"LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer", "GemmaTokenizerFast",
                           "CohereTokenizer"}) {
    const json config = {{"tokenizer_class", name}};
    const auto with = [&](const json& more) {
      auto all = config;
      all.update(more);
      return ids(all);
    };
    EXPECT_THAT(with({{"add_bos_token", true}, {"add_eos_token", false}}), ElementsAre(8, 0)) << name;
    EXPECT_THAT(with({{"add_bos_token", false}}), ElementsAre(0)) << name;
    EXPECT_THAT(with({{"add_eos_token", true}}), ElementsAre(8, 0, 9)) << name;
    EXPECT_THAT(with({{"add_bos_token", false}, {"add_eos_token", true}}), ElementsAre(0, 9)) << name;
    EXPECT_THAT(with(json::object()), ElementsAre(8, 0)) << name; // tokenizer.json's own
  }
  EXPECT_THAT(ids({{"tokenizer_class", "GPTNeoXTokenizer"}, {"add_eos_token", true}}), ElementsAre(0, 9));
  EXPECT_THAT(
      ids({{"tokenizer_class", "GPTNeoXTokenizer"}, {"add_bos_token", false}, {"add_eos_token", false}}),
      ElementsAre(0));
  for (const char* name : {"PreTrainedTokenizerFast", "Qwen2Tokenizer"}) { // these do not look at them
    EXPECT_THAT(ids({{"tokenizer_class", name}, {"add_bos_token", false}, {"add_eos_token", true}}),
                ElementsAre(8, 0))
        << name;
  }
  EXPECT_THAT(ids({{"add_bos_token", false}}), ElementsAre(8, 0));
}

TEST(tokenizer_config, a_token_that_is_to_be_added_must_be_there) {
  const json llama = {{"tokenizer_class", "LlamaTokenizer"}, {"add_bos_token", true}};
  EXPECT_THAT(parse(llama)->encode("a", true), ElementsAre(0)); // no bos_token at all
  auto unknown = llama;
  unknown["bos_token"] = "<bos>";
  EXPECT_THAT(parse(unknown)->encode("a", true), ElementsAre(10, 0))
      << "a special token that is named is added";
  unknown.erase("bos_token");
  unknown["added_tokens_decoder"] = json::object();
  EXPECT_THAT(
      [&] {
        parse(unknown, {{"bos_token", "<bos>"}});
      },
      ThrowsMessage<text_error>(
          "model/tokenizer_config.json: /: add_bos_token is true, and '<bos>' is not in "
          "the vocabulary"));
  // The class adds it if only the other end is configured.
  const json by_class = {{"tokenizer_class", "LlamaTokenizerFast"},
                         {"add_eos_token", false},
                         {"added_tokens_decoder", json::object()}};
  EXPECT_THAT(
      [&] {
        parse(by_class, {{"bos_token", "<bos>"}});
      },
      ThrowsMessage<text_error>(
          "model/tokenizer_config.json: /: bos_token is added by LlamaTokenizerFast, and '<bos>' is "
          "not in the vocabulary"));
}

TEST(tokenizer_config, of_added_tokens_that_become_equal_the_first_is_found) {
  auto file = small_tokenizer();
  file["normalizer"] = {{"type", "Lowercase"}};
  const auto added = [](const char* content, bool special) {
    return json{{"id", 0},         {"content", content}, {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", true}, {"special", special}};
  };
  file["added_tokens"] = {added("Tok", false), added("TOK", false)};
  EXPECT_THAT(parse({}, {}, file)->encode("tok", false), ElementsAre(8));
  file["added_tokens"] = {added("Tok", false), added("TOK", true),
                          added("tOK", true)}; // special ones come first
  EXPECT_THAT(parse({}, {}, file)->encode("tok", false), ElementsAre(9));
}

json listed(const char* content, bool special, bool strip_left = false) {
  return {{"content", content}, {"special", special},  {"lstrip", strip_left},
          {"rstrip", false},    {"normalized", false}, {"single_word", false}};
}

TEST(tokenizer_config, adds_the_tokens_that_tokenizer_json_lacks) {
  const json config = {
      {"added_tokens_decoder",
       {{"9", listed("<tag>", false)}, {"10", listed("<eot>", false)}, {"8", listed("<s>", true)}}},
      {"eos_token", "<eot>"},
      {"additional_special_tokens", {"<x>"}}};
  const auto t = parse(config);
  EXPECT_THAT(t->encode("a<eot><x><tag>", false), ElementsAre(0, 10, 11, 9));
  EXPECT_TRUE(t->is_special(10)) << "which is named";
  EXPECT_TRUE(t->is_special(11));
  EXPECT_FALSE(t->is_special(9));
  EXPECT_EQ(t->eos_id(), 10);
  EXPECT_THAT(t->differences(), ElementsAre("model/tokenizer_config.json: 2 tokens that tokenizer.json lacks "
                                            "('<eot>', '<x>')"));
}

TEST(tokenizer_config, gives_the_flags_of_added_tokens) {
  const auto t =
      parse({{"added_tokens_decoder", {{"9", listed("<tag>", true, true)}, {"8", listed("<s>", false)}}}});
  EXPECT_TRUE(t->is_special(9));
  EXPECT_TRUE(t->is_special(8)) << "as tokenizer.json says";
  EXPECT_THAT(t->encode("a  <tag>", false), ElementsAre(0, 9)) << "it takes the blanks on its left";
  EXPECT_THAT(t->differences(),
              ElementsAre("model/tokenizer_config.json: 1 tokens that tokenizer.json gives other "
                          "flags ('<tag>')"));
}

TEST(tokenizer_config, that_says_the_same_is_no_difference) {
  EXPECT_TRUE(parse({{"added_tokens_decoder", {{"9", listed("<tag>", false)}, {"8", listed("<s>", true)}}},
                     {"bos_token", "<s>"}})
                  ->differences()
                  .empty());
}

TEST(tokenizer_config, special_tokens_that_are_only_named_are_added_tokens) {
  const auto t = parse({{"pad_token", "ab"}, {"mask_token", {{"content", "<mask>"}, {"lstrip", true}}}});
  EXPECT_THAT(t->encode("b ab <mask>", false), ElementsAre(1, 2, 3, 10));
  EXPECT_TRUE(t->is_special(3)) << "an entry of the model becomes one";
}

TEST(tokenizer_config, of_an_older_folder_has_its_tokens_in_added_tokens_json) {
  const auto t = tokenizer::parse(small_tokenizer().dump(), "", "model", json{{"eos_token", "<end>"}}.dump(),
                                  json{{"<end>", 10}, {"<more>", 11}, {"<other>", 9}}.dump());
  EXPECT_THAT(t->encode("a<end><more><tag>", false), ElementsAre(0, 10, 11, 9));
  EXPECT_TRUE(t->is_special(10));
  EXPECT_FALSE(t->is_special(11));
  EXPECT_EQ(t->token_to_id("<other>"), std::nullopt) << "its id is another token's in tokenizer.json";
}

} // namespace

} // namespace troupe::text
