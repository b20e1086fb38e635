#include "kernels/model/generation_config.hpp"

#include "tests/reference/random_model.hpp"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <utility>

namespace troupe::model {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

generation_config parse(const char* json) {
  return parse_generation_config(json, "g.json", 100'000);
}

TEST(generation_config, reads_what_it_knows_and_names_the_rest) {
  const auto config = parse(
      R"({"do_sample": false, "temperature": 0.6, "top_k": 20.0, "top_p": 0.95, "eos_token_id": [5, 7],
        "bos_token_id": 1, "repetition_penalty": 1.05, "max_new_tokens": 2048, "num_beams": 1, "typical_p": 1.0,
        "no_repeat_ngram_size": 0, "max_length": 20, "num_beam_groups": 4, "something_new": {"a": 1}})");
  EXPECT_EQ(config.temperature, 0.6F); // do_sample does not make it 0
  EXPECT_EQ(config.top_k, 20);
  EXPECT_EQ(config.top_p, 0.95F);
  EXPECT_EQ(config.repetition_penalty, 1.05F);
  EXPECT_EQ(config.max_new_tokens, 2048);
  EXPECT_FALSE(config.min_p.has_value());
  EXPECT_THAT(config.eos_token_ids, ElementsAre(5, 7));
  EXPECT_THAT(config.ignored, ElementsAre("max_length", "num_beam_groups", "something_new"));
}

TEST(generation_config, values_that_no_request_may_have_are_named_and_do_not_count) {
  for (const auto* text :
       {R"({"temperature": -0.1})", R"({"temperature": 1e+300})", R"({"temperature": "hot"})",
        R"({"top_p": 1.5})", R"({"top_p": -1})", R"({"min_p": 2})", R"({"top_k": -2})", R"({"top_k": 1.5})",
        R"({"repetition_penalty": 0})", R"({"repetition_penalty": 0.001})",
        R"({"repetition_penalty": 1e-60})", R"({"repetition_penalty": 101})", R"({"max_new_tokens": -5})"}) {
    SCOPED_TRACE(text);
    const auto config = parse(text);
    // {"top_p": 1.5} → top_p = 1.5
    std::string named{text};
    named = named.substr(2, named.size() - 3);
    named.replace(named.find("\": "), 3, " = ");
    EXPECT_THAT(config.ignored, ElementsAre(named));
    EXPECT_FALSE(config.temperature || config.top_p || config.top_k || config.min_p
                 || config.repetition_penalty || config.max_new_tokens);
  }
}

TEST(generation_config, takes_the_ends_of_every_range) {
  const auto config = parse(
      R"({"temperature": 3.4e38, "top_k": 2147483647, "top_p": 1, "min_p": 1, "repetition_penalty": 0.01,
        "max_new_tokens": 2147483647})");
  EXPECT_EQ(config.temperature, 3.4e38F);
  EXPECT_EQ(config.top_k, 2147483647);
  EXPECT_EQ(config.top_p, 1.0F);
  EXPECT_EQ(config.min_p, 1.0F);
  EXPECT_EQ(config.repetition_penalty, 0.01F);
  EXPECT_EQ(config.max_new_tokens, 2147483647);
  EXPECT_THAT(config.ignored, IsEmpty());
  const auto least = parse(R"({"temperature": 0, "repetition_penalty": 100, "min_p": 0, "top_k": 0})");
  EXPECT_EQ(least.temperature, 0.0F);
  EXPECT_EQ(least.repetition_penalty, 100.0F);
  EXPECT_EQ(least.min_p, 0.0F);
  EXPECT_EQ(least.top_k, 0);
}

TEST(generation_config, takes_what_means_the_same_as_the_end_of_a_range) {
  const auto config = parse(R"({"top_k": -1, "top_p": 0, "max_new_tokens": 4294967297})");
  EXPECT_EQ(config.top_k, 0);                                 // all tokens, as vLLM writes it
  EXPECT_EQ(config.top_p, std::numeric_limits<float>::min()); // the best token alone
  EXPECT_EQ(config.max_new_tokens, 2147483647);
  EXPECT_THAT(config.ignored, IsEmpty());
}

TEST(generation_config, end_tokens_that_never_come_are_named) {
  const auto config = parse(R"({"eos_token_id": [-1, 4294967296, 100000, 99999]})");
  EXPECT_THAT(config.eos_token_ids, ElementsAre(99999));
  EXPECT_THAT(config.ignored, ElementsAre("eos_token_id -1 (not in the vocabulary)",
                                          "eos_token_id 4294967296 (not in the vocabulary)",
                                          "eos_token_id 100000 (not in the vocabulary)"));
}

TEST(generation_config, what_cannot_be_read_is_refused) {
  for (const auto& [text, message] :
       {std::pair{"[]", "g.json: expected a JSON object, found array"},
        std::pair{R"({"eos_token_id": "</s>"})",
                  "g.json: field 'eos_token_id' must be an integer, found string"}})
    try {
      parse(text);
      ADD_FAILURE() << "accepted " << text;
    } catch (const model_error& e) {
      EXPECT_STREQ(e.what(), message);
    }
}

TEST(generation_config, ends_are_its_own_and_those_of_the_model) {
  model_config model;
  model.vocab_size = 100;
  model.eos_token_ids = {4, 7, 4};
  EXPECT_THAT(load_generation_config("/nonexistent", model).eos_token_ids, ElementsAre(4, 7));
  const test::scratch_folder folder;
  std::ofstream(folder.path() / "generation_config.json") << R"({"eos_token_id": [7, 5]})";
  EXPECT_THAT(load_generation_config(folder.path(), model).eos_token_ids, ElementsAre(7, 5, 4));
  std::ofstream(folder.path() / "generation_config.json") << R"({"eos_token_id": null})";
  EXPECT_THAT(load_generation_config(folder.path(), model).eos_token_ids, ElementsAre(4, 7));
}

} // namespace
} // namespace troupe::model
