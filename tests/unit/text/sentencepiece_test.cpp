// Folders with a SentencePiece model alone. Ids must equal those of SentencePiece itself, which
// tests/golden/tokenizers/sentencepiece.mjs wrote to the golden files.

#include "services/gateway/text/detokenizer.hpp"
#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/tokenizer.hpp"
#include "services/gateway/text/unicode.hpp"
#include "tests/unit/text/golden_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace troupe::text {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;
using json = nlohmann::json;

/// A model folder of one test.
class sentencepiece_folder : public testing::Test {
 protected:
  sentencepiece_folder() { std::filesystem::create_directories(folder_); }

  ~sentencepiece_folder() override { std::filesystem::remove_all(folder_); }

  void put(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  std::shared_ptr<const tokenizer> load(const std::string& model, const char* name,
                                        json config = json::object()) const {
    put("tokenizer.model", model);
    config["tokenizer_class"] = name;
    put("tokenizer_config.json", config.dump());
    return tokenizer::load(folder_);
  }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("sentencepiece." + std::to_string(::getpid()));
};

std::string model_of(const char* name) {
  return read_file(golden_dir / "ids" / (std::string(name) + ".sentencepiece"));
}

TEST_F(sentencepiece_folder, ids_are_sentencepieces) {
  for (const auto* name : {"llama", "plain", "trimmed"}) {
    SCOPED_TRACE(name);
    const auto t = load(model_of(name), "Ernie4_5_Tokenizer");
    const auto lines = read_lines(golden_dir / "ids" / ("sentencepiece-" + std::string(name) + ".jsonl"));
    ASSERT_GT(lines.size(), 60);
    for (const auto& line : lines) {
      const auto golden = json::parse(line);
      EXPECT_EQ(t->encode(golden.at(0).get<std::string>(), true),
                golden.at(1).get<std::vector<std::int32_t>>())
          << golden.at(0);
    }
  }
}

TEST_F(sentencepiece_folder, texts_come_back) {
  const auto t = load(model_of("llama"), "Ernie4_5_Tokenizer");
  for (const auto& line : read_lines(golden_dir / "ids/sentencepiece-llama.jsonl")) {
    const auto golden = json::parse(line);
    const auto text = golden.at(0).get<std::string>();
    if (text.find("▁") != std::string::npos)
      continue; // a blank afterwards
    const auto ids = golden.at(1).get<std::vector<std::int32_t>>();
    EXPECT_EQ(t->decode(ids, true), text);
    detokenizer stream(t, true);
    std::string joined;
    for (const auto id : ids) {
      const auto part = stream.push(id);
      EXPECT_EQ(to_valid_utf8(part), part); // no part of a character
      joined += part;
    }
    EXPECT_EQ(joined + stream.flush(), text);
  }
}

TEST_F(sentencepiece_folder, llamas_class_adds_the_begin_of_a_text) {
  const auto model = model_of("llama");
  EXPECT_THAT(load(model, "LlamaTokenizer")->encode("", true), ElementsAre(1));
  EXPECT_THAT(
      load(model, "LlamaTokenizerFast", {{"add_bos_token", false}, {"bos_token", "<s>"}})->encode("", true),
      ElementsAre());
  EXPECT_THAT(
      load(model, "LlamaTokenizer",
           {{"add_bos_token", true}, {"add_eos_token", true}, {"bos_token", "<s>"}, {"eos_token", "</s>"}})
          ->encode("", true),
      ElementsAre(1, 2));
  EXPECT_THAT(load(model, "Ernie4_5_Tokenizer", {{"bos_token", "<s>"}})->encode("", true), ElementsAre());
}

// Every part between added tokens is a text of its own, unless `legacy` is false.
TEST_F(sentencepiece_folder, added_tokens_have_their_listed_ids) {
  const auto model = model_of("llama");
  const auto first = load(model, "Ernie4_5_Tokenizer")->vocab_size();
  const json added{
      {std::to_string(first), {{"content", "<|turn|>"}, {"special", true}}},
      {std::to_string(first + 7), {{"content", "<|call|>"}, {"special", false}, {"normalized", false}}},
      {"2", {{"content", "</s>"}, {"special", true}}}};
  const auto t = load(model, "LlamaTokenizer", {{"added_tokens_decoder", added}, {"add_bos_token", false}});
  const auto a = t->encode("a", false);
  ASSERT_EQ(a.size(), 1);
  EXPECT_THAT(t->encode("<|turn|>a</s>a<|call|>", true), ElementsAre(first, a[0], 2, a[0], first + 7));
  EXPECT_EQ(t->decode(std::vector<std::int32_t>{first, a[0], 2, first + 7}, true), "a<|call|>");
  EXPECT_TRUE(t->differences().empty());
  const auto newer = load(model, "LlamaTokenizer",
                          {{"added_tokens_decoder", added}, {"add_bos_token", false}, {"legacy", false}});
  EXPECT_THAT(newer->encode("a</s> a", false), ElementsAre(a[0], 2, a[0]));
  EXPECT_THAT(newer->encode("a", false), ElementsAre(a[0]));
}

// An older folder, whose tokens are in added_tokens.json.
TEST_F(sentencepiece_folder, tokens_of_added_tokens_json_have_its_ids) {
  put("added_tokens.json", R"({"<cls>": 5000})");
  const auto t = load(model_of("llama"), "Ernie4_5_Tokenizer",
                      {{"cls_token", "<cls>"}, {"eos_token", "</s>"}, {"sep_token", "<sep>"}});
  EXPECT_THAT(t->encode("<cls></s><sep>", false),
              ElementsAre(5000, 2, 5001)); // one that no file lists comes last
  EXPECT_EQ(t->vocab_size(), 5002);
  EXPECT_EQ(t->id_to_token(4999), "");
}

TEST_F(sentencepiece_folder, other_classes_are_refused_by_name) {
  EXPECT_THAT(
      [&] { load(model_of("llama"), "T5Tokenizer"); },
      ThrowsMessage<text_error>(file("tokenizer.model") + ": without tokenizer.json, the tokenizer_class of "
                                + file("tokenizer_config.json")
                                + " must be one of LlamaTokenizer, Ernie4_5_Tokenizer, not 'T5Tokenizer'"));
}

TEST_F(sentencepiece_folder, damaged_models_are_refused) {
  const auto whole = model_of("plain");
  const auto refusal = file("tokenizer.model") + ": not a SentencePiece model: ";
  const auto why = [&](const std::string& model) -> std::string {
    try {
      load(model, "LlamaTokenizer");
    } catch (const text_error& e) {
      return e.what();
    }
    return "loaded";
  };
  EXPECT_EQ(why(""), refusal + "it has no pieces");
  EXPECT_EQ(why("\x07"), refusal + "it is no message of protobuf");
  EXPECT_EQ(why(std::string(12, '\xff')), refusal + "it is no message of protobuf");
  EXPECT_EQ(why("\x0a\x02\x0a\x00"), refusal + "it is cut off");
  EXPECT_EQ(why(std::string("\x0a\x02\x0a\x00", 4)), refusal + "a piece is empty or not valid UTF-8");
  EXPECT_EQ(why("\x0a\x03\x0a\x01\xff"), refusal + "a piece is empty or not valid UTF-8");
  EXPECT_EQ(why("\x0a\x05\x0a\x01"
                "a\x18\x07"),
            refusal + "a piece is of the unknown kind 7");
  EXPECT_EQ(why(std::string("\x0a\x08\x0a\x01"
                            "a\x15\x00\x00\xc0\x7f",
                            10)),
            refusal + "a score is not finite");
  const std::string unigram("\x0a\x03\x0a\x01"
                            "a\x12\x02\x18\x01",
                            9);
  EXPECT_EQ(why(unigram),
            file("tokenizer.model") + ": not supported: the model is no BPE (model_type is not 2)");
  EXPECT_EQ(why("\x0a\x05\x0a\x01"
                "a\x18\x05\x12\x02\x18\x02"),
            file("tokenizer.model") + ": not supported: it has unused pieces");
  EXPECT_EQ(why(std::string("\x0a\x03\x0a\x01"
                            "a\x0a\x03\x0a\x01"
                            "a\x12\x02\x18\x02")),
            file("tokenizer.model") + ": the entry 'a' occurs twice");
  for (std::size_t size = 1; size < whole.size(); size += 97) // a cut between fields leaves a smaller model
    EXPECT_THAT(why(whole.substr(0, size)), testing::AnyOf(StartsWith(file("tokenizer.model")), "loaded"));
}

} // namespace

} // namespace troupe::text
