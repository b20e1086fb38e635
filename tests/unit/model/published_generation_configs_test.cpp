// The generation_config.json of published mixture-of-experts models whose answers end at tokens that
// config.json does not name, or not all of: all of them must end a sequence.

#include "kernels/model/generation_config.hpp"

#include "tests/reference/random_model.hpp"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ostream>
#include <string>
#include <vector>

namespace troupe::model {
namespace {

struct published_file {
  const char* name;
  const char* generation; // generation_config.json; empty: no such file
  std::vector<std::int32_t> of_config;
  std::size_t vocab_size;
  std::vector<std::int32_t> ends;
  std::vector<std::string> ignored = {};
};

void PrintTo(const published_file& p, std::ostream* out) {
  *out << p.name;
}

class published_generation_configs : public testing::TestWithParam<published_file> {};

TEST_P(published_generation_configs, give_all_ends_of_an_answer) {
  const auto& p = GetParam();
  const test::scratch_folder folder;
  if (*p.generation != '\0')
    std::ofstream(folder.path() / "generation_config.json") << p.generation;
  model_config model;
  model.vocab_size = p.vocab_size;
  model.eos_token_ids = p.of_config;
  const auto generation = load_generation_config(folder.path(), model);
  EXPECT_EQ(generation.eos_token_ids, p.ends);
  EXPECT_EQ(generation.ignored, p.ignored);
}

constexpr const char* glm_4_5 = R"({"_from_model_config": true, "do_sample": true,
  "eos_token_id": [151329, 151336, 151338], "pad_token_id": 151329, "temperature": 0.6, "top_p": 0.95,
  "transformers_version": "4.54.0"})";

INSTANTIATE_TEST_SUITE_P(
    models, published_generation_configs,
    testing::Values(
        published_file{
            "deepseek-ai/DeepSeek-V2-Lite-Chat",
            R"({"_from_model_config": true, "bos_token_id": 100000, "eos_token_id": 100001, "do_sample": true,
                    "temperature": 0.3, "top_p": 0.95, "transformers_version": "4.39.3"})",
            {100001},
            102400,
            {100001}},
        published_file{
            "deepseek-ai/DeepSeek-V3",
            R"({"_from_model_config": true, "bos_token_id": 0, "eos_token_id": 1, "do_sample": true,
                    "temperature": 0.6, "top_p": 0.95, "transformers_version": "4.39.3"})",
            {1},
            129280,
            {1}},
        // <|im_end|> ends a turn, and [EOS] a text.
        published_file{"moonshotai/Kimi-K2-Instruct",
                       R"({"max_length": 131072, "eos_token_id": 163586})",
                       {163585},
                       163840,
                       {163586, 163585},
                       {"max_length"}},
        // The end of a turn is the opening of the user's or of an observation.
        published_file{
            "zai-org/GLM-4.5", glm_4_5, {151329, 151336, 151338}, 151552, {151329, 151336, 151338}},
        published_file{"zai-org/GLM-4.5 with the config of a fine-tune",
                       glm_4_5,
                       {151329},
                       151552,
                       {151329, 151336, 151338}},
        published_file{
            "zai-org/GLM-4.7-Flash",
            R"({"_from_model_config": true, "eos_token_id": [154820, 154827, 154829], "pad_token_id": 154820,
                    "temperature": 1.0, "transformers_version": "5.0.0rc0"})",
            {154820, 154827, 154829},
            154880,
            {154820, 154827, 154829}},
        // <|return|>, <|endoftext|>, <|call|>; not <|end|>, which ends a channel.
        published_file{
            "openai/gpt-oss-20b",
            R"({"bos_token_id": 199998, "do_sample": true, "eos_token_id": [200002, 199999, 200012],
                    "pad_token_id": 199999, "transformers_version": "4.55.0.dev0"})",
            {200002},
            201088,
            {200002, 199999, 200012}},
        published_file{
            "microsoft/Phi-3.5-MoE-instruct",
            R"({"_from_model_config": true, "bos_token_id": 1, "eos_token_id": [32000, 32001, 32007],
                    "pad_token_id": 32000, "transformers_version": "4.43.3"})",
            {32000},
            32064,
            {32000, 32001, 32007}},
        published_file{
            "ibm-granite/granite-3.1-3b-a800m-instruct",
            R"({"_from_model_config": true, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0,
                    "transformers_version": "4.47.0.dev0"})",
            {0},
            49155,
            {0}},
        published_file{
            "baidu/ERNIE-4.5-21B-A3B-PT",
            R"({"do_sample": true, "top_p": 0.8, "temperature": 0.8, "bos_token_id": 1, "eos_token_id": 2,
                    "pad_token_id": 0, "repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0})",
            {2},
            103424,
            {2}},
        published_file{"tencent/Hunyuan-A13B-Instruct",
                       R"({"do_sample": true, "eos_token_id": [127960, 127967], "pad_token_id": 127961,
                    "repetition_penalty": 1.05, "temperature": 0.7, "top_k": 20, "top_p": 0.8,
                    "transformers_version": "4.41.2"})",
                       {127960},
                       128167,
                       {127960, 127967}},
        published_file{"rednote-hilab/dots.llm1.inst",
                       R"({"eos_token_id": [151643, 151649], "transformers_version": "4.46.3"})",
                       {151649},
                       152064,
                       {151643, 151649}},
        // config.json names no end.
        published_file{
            "MiniMaxAI/MiniMax-M2",
            R"({"bos_token_id": 200019, "do_sample": true, "eos_token_id": 200020, "temperature": 1.0,
                    "top_k": 40, "top_p": 0.95, "transformers_version": "4.46.1"})",
            {},
            200064,
            {200020}},
        published_file{
            "meta-llama/Llama-4-Scout-17B-16E-Instruct",
            R"({"bos_token_id": 200000, "do_sample": true, "eos_token_id": [200001, 200007, 200008],
                    "pad_token_id": 200018, "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.51.0.dev0"})",
            {200001, 200007, 200008},
            202048,
            {200001, 200007, 200008}},
        published_file{"Qwen/Qwen3-Next-80B-A3B-Instruct",
                       R"({"bos_token_id": 151643, "do_sample": true, "eos_token_id": [151645, 151643],
                    "pad_token_id": 151643, "temperature": 0.7, "top_k": 20, "top_p": 0.8,
                    "transformers_version": "4.57.0.dev0"})",
                       {151645},
                       151936,
                       {151645, 151643}}));

} // namespace
} // namespace troupe::model
