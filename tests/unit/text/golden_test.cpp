// Ids and texts must equal those of Hugging Face's own implementation, which tests/golden/tokenizers/make.mjs
// wrote to the golden files.

#include "services/gateway/text/detokenizer.hpp"
#include "services/gateway/text/tokenizer.hpp"
#include "tests/unit/text/golden_files.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace troupe::text {

namespace {

std::string bytes_of_hex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

std::vector<std::string> texts() {
  std::vector<std::string> out;
  const auto json = nlohmann::json::parse(read_file(golden_dir / "ids/texts.json"));
  for (const auto& text : json.at("texts")) {
    out.push_back(text.is_string() ? text.get<std::string>()
                                   : bytes_of_hex(text.at("hex").get<std::string>()));
  }
  return out;
}

std::string written(const std::vector<std::int32_t>& ids, const tokenizer& t) {
  std::string out;
  for (const auto id : ids)
    out += std::to_string(id) + "[" + t.id_to_token(id) + "] ";
  return out;
}

void expect_decodes(const std::shared_ptr<const tokenizer>& t, const std::vector<std::int32_t>& ids,
                    bool skip, const std::string& expected) {
  EXPECT_EQ(t->decode(ids, skip), expected);
  detokenizer stream(t, skip);
  std::string joined;
  for (const auto id : ids) {
    const auto piece = stream.push(id);
    // nlohmann's dump throws for invalid UTF-8.
    EXPECT_NO_THROW(nlohmann::json(piece).dump()) << written(ids, *t);
    joined += piece;
  }
  EXPECT_EQ(joined + stream.flush(), expected) << written(ids, *t);
}

/// Cuts the ids in two wherever the first part has complete text: the second part adds the rest.
void expect_continues(const std::shared_ptr<const tokenizer>& t, const std::vector<std::int32_t>& ids,
                      bool skip, const std::string& expected) {
  constexpr std::size_t most = 64; // of a long text's
  const std::span<const std::int32_t> all(ids);
  detokenizer stream(t, skip);
  std::string head;
  for (std::size_t cut = 1; cut <= std::min(most, ids.size()); ++cut) {
    head += stream.push(ids[cut - 1]);
    if (head != t->decode(all.first(cut), skip))
      continue;
    detokenizer rest(t, skip, all.first(cut));
    std::string tail;
    for (const auto id : all.subspan(cut))
      tail += rest.push(id);
    EXPECT_EQ(head + tail + rest.flush(), expected) << cut << " of " << written(ids, *t);
  }
}

void expect_golden(const std::shared_ptr<const tokenizer>& t, const std::string& name) {
  std::istringstream lines(read_file(golden_dir / "ids" / (name + ".jsonl")));
  const auto inputs = texts();
  std::size_t index = 0;
  for (std::string line; std::getline(lines, line); ++index) {
    const auto json = nlohmann::json::parse(line);
    const auto ids = json.at(0).get<std::vector<std::int32_t>>();
    if (!json.at(1).is_null()) {
      ASSERT_LT(index, inputs.size());
      SCOPED_TRACE("text " + std::to_string(index) + ": " + inputs[index]);
      const auto got = t->encode(inputs[index], true);
      EXPECT_EQ(got, ids) << "expected " << written(ids, *t) << "\n     got " << written(got, *t);
      EXPECT_EQ(t->encode(inputs[index], false), json.at(1).get<std::vector<std::int32_t>>());
    }
    SCOPED_TRACE("line " + std::to_string(index));
    expect_decodes(t, ids, false, json.at(2).get<std::string>());
    expect_decodes(t, ids, true, json.at(3).get<std::string>());
    expect_continues(t, ids, false, json.at(2).get<std::string>());
    expect_continues(t, ids, true, json.at(3).get<std::string>());
  }
  EXPECT_GT(index, inputs.size());
}

class published_vocabulary : public testing::TestWithParam<std::string> {};

TEST_P(published_vocabulary, gives_the_golden_ids) {
  const auto dir = vocabulary_dir(GetParam());
  if (!dir)
    TROUPE_SKIP_UNFETCHED("the vocabulary of " + GetParam());
  // The goldens are of tokenizer.json alone.
  expect_golden(tokenizer::parse(read_file(*dir / "tokenizer.json"), "", GetParam()), GetParam());
}

// transformers' ids for an empty text: the ends of tokenizer.json or, for some classes, of the configuration.
TEST_P(published_vocabulary, adds_the_ends_that_its_class_adds) {
  const auto dir = vocabulary_dir(GetParam());
  if (!dir)
    TROUPE_SKIP_UNFETCHED("the vocabulary of " + GetParam());
  const auto of_file =
      nlohmann::json::parse(read_lines(golden_dir / "ids" / (GetParam() + ".jsonl")).front()).at(0);
  constexpr std::int32_t begin_of_sentence = 0; // DeepSeek's; its tokenizer.json adds none
  const auto expected = GetParam() == "deepseek_v3" ? std::vector<std::int32_t>{begin_of_sentence}
                                                    : of_file.get<std::vector<std::int32_t>>();
  EXPECT_EQ(tokenizer::load(*dir)->encode("", true), expected);
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  const auto json = nlohmann::json::parse(read_file(golden_dir / "vocabularies.json"));
  for (const auto& [name, version] : json.items())
    out.push_back(name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(npm, published_vocabulary, testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

class sentencepiece_model : public testing::TestWithParam<std::string> {};

TEST_P(sentencepiece_model, gives_the_golden_ids) {
  const auto model = std::filesystem::path(TROUPE_SOURCE_DIR) / "../shared/tokenizers/spm"
                     / (GetParam().substr(std::string("spm-").size()) + ".model");
  if (!std::filesystem::exists(model))
    GTEST_SKIP() << "no " << model << " beside the checkout";
  const auto file =
      std::filesystem::temp_directory_path() / (GetParam() + "." + std::to_string(::getpid()) + ".json");
  const auto command =
      "node '" + (golden_dir / "spm.mjs").string() + "' '" + model.string() + "' '" + file.string() + "'";
  ASSERT_EQ(std::system(command.c_str()), 0) << command; // NOLINT(concurrency-mt-unsafe)
  const auto json = read_file(file);
  std::filesystem::remove(file);
  expect_golden(tokenizer::parse(json, "", GetParam()), GetParam());
}

// GoogleTest's names have no hyphens.
std::string test_name(const testing::TestParamInfo<std::string>& test) {
  auto name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(shared, sentencepiece_model,
                         testing::Values("spm-spiece", "spm-test_sentencepiece",
                                         "spm-test_sentencepiece_bpe"),
                         test_name);

class synthetic_tokenizer : public testing::TestWithParam<std::string> {};

TEST_P(synthetic_tokenizer, gives_the_golden_ids) {
  const auto json = read_file(golden_dir / "ids" / (GetParam() + ".tokenizer.json"));
  expect_golden(tokenizer::parse(json, "", GetParam()), GetParam());
}

INSTANTIATE_TEST_SUITE_P(made, synthetic_tokenizer,
                         testing::ValuesIn(names_of(golden_dir / "ids", ".tokenizer.json")), test_name);

} // namespace

} // namespace troupe::text
