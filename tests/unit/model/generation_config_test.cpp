#include "kernels/model/generation_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::model {
namespace {

TEST(generation_config, reads_what_it_knows_and_ignores_the_rest) {
  const auto config = parse_generation_config(
      R"({"do_sample": false, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [5, 7],
        "bos_token_id": 1, "repetition_penalty": 1.05, "max_new_tokens": 2048, "something_new": {"a": 1}})",
      "g.json");
  EXPECT_EQ(config.temperature, 0.6F); // do_sample does not make it 0
  EXPECT_EQ(config.top_k, 20);
  EXPECT_EQ(config.top_p, 0.95F);
  EXPECT_EQ(config.repetition_penalty, 1.05F);
  EXPECT_EQ(config.max_new_tokens, 2048);
  EXPECT_FALSE(config.min_p.has_value());
  EXPECT_THAT(config.eos_token_ids, testing::ElementsAre(5, 7));
}

TEST(generation_config, names_an_ill_typed_field) {
  try {
    parse_generation_config(R"({"temperature": "hot"})", "g.json");
    FAIL();
  } catch (const model_error& e) {
    EXPECT_STREQ(e.what(), "g.json: field 'temperature' must be a number, found string");
  }
}

TEST(generation_config, refuses_values_out_of_range_by_name) {
  for (const auto* text :
       {R"({"temperature": -0.1})", R"({"top_p": 1.5})", R"({"top_p": -1})", R"({"min_p": 2})",
        R"({"top_k": -1})", R"({"repetition_penalty": 0})", R"({"max_new_tokens": -5})",
        R"({"eos_token_id": [4294967296]})", R"({"top_p": 0})", R"({"top_p": 1e-60})",
        R"({"temperature": 1e300})", R"({"repetition_penalty": 0.001})", R"({"repetition_penalty": 1e-60})",
        R"({"repetition_penalty": 101})", R"({"top_k": 2147483648})", R"({"top_k": 4294967297})",
        R"({"max_new_tokens": 4294967297})"}) {
    const std::string field = std::string{text}.substr(2, std::string{text}.find(':') - 3);
    try {
      parse_generation_config(text, "g.json");
      ADD_FAILURE() << "accepted " << text;
    } catch (const model_error& e) {
      EXPECT_THAT(e.what(), testing::StartsWith("g.json: field '" + field + "'")) << text;
    }
  }
}

TEST(generation_config, takes_the_ends_of_every_range) {
  const auto config = parse_generation_config(
      R"({"temperature": 3.4e38, "top_k": 2147483647, "top_p": 1, "min_p": 1, "repetition_penalty": 0.01,
        "max_new_tokens": 2147483647})",
      "g.json");
  EXPECT_EQ(config.temperature, 3.4e38F);
  EXPECT_EQ(config.top_k, 2147483647);
  EXPECT_EQ(config.top_p, 1.0F);
  EXPECT_EQ(config.repetition_penalty, 0.01F);
  EXPECT_EQ(config.max_new_tokens, 2147483647);
  EXPECT_EQ(
      parse_generation_config(R"({"temperature": 0, "repetition_penalty": 100, "top_p": 0.001})", "g.json")
          .temperature,
      0.0F);
}

TEST(generation_config, says_a_value_that_is_refused_as_it_was_written) {
  try {
    parse_generation_config(R"({"repetition_penalty": 1e-60})", "g.json");
    FAIL();
  } catch (const model_error& e) {
    EXPECT_STREQ(e.what(), "g.json: field 'repetition_penalty' is 1e-60, which is out of range");
  }
}

TEST(generation_config, falls_back_to_the_ids_of_the_model) {
  model_config model;
  model.eos_token_ids = {4};
  const auto config = load_generation_config("/nonexistent", model);
  EXPECT_THAT(config.eos_token_ids, testing::ElementsAre(4));
}

} // namespace
} // namespace troupe::model
