// The tokens that end a sequence, for published mixture-of-experts checkpoints and the saved forms of their
// fine-tunes.

#include "services/gateway/end_tokens.hpp"
#include "tests/unit/text/small_tokenizer.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace troupe {

namespace {

using nlohmann::json;
using ids = std::vector<std::int32_t>;

/// The files of a model folder that determine them.
struct checkpoint {
  const char* name;
  const char* tokenizer_config;
  ids generation; ///< eos_token_id of generation_config.json
  ids config;     ///< eos_token_id of config.json
  ids ends;
};

void PrintTo(const checkpoint& x, std::ostream* out) {
  *out << x.name;
}

constexpr const char* mixtral =
    R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true, "add_eos_token": false,
  "added_tokens_decoder": {}, "additional_special_tokens": [], "bos_token": "<s>", "eos_token": "</s>",
  "unk_token": "<unk>", "pad_token": null, "legacy": true, "model_max_length": 1000000000000000019884624838656,
  "sp_model_kwargs": {}, "spaces_between_special_tokens": false, "use_default_system_prompt": false,
  "clean_up_tokenization_spaces": false})";
constexpr const char* chatml_on_mixtral = R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true,
  "add_eos_token": false, "added_tokens_decoder": {}, "bos_token": "<s>", "eos_token": "<|im_end|>",
  "unk_token": "<unk>", "pad_token": "</s>", "trust_remote_code": false, "use_fast": true})";
constexpr const char* olmoe =
    R"({"tokenizer_class": "GPTNeoXTokenizer", "add_bos_token": false, "add_eos_token": false,
  "add_prefix_space": false, "added_tokens_decoder": {}, "bos_token": null, "eos_token": "<|endoftext|>",
  "pad_token": "<|padding|>", "unk_token": null, "model_max_length": 1000000000000000019884624838656})";
constexpr const char* qwen_base = R"({"tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": false,
  "added_tokens_decoder": {}, "additional_special_tokens": ["<|im_start|>", "<|im_end|>"], "bos_token": null,
  "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "unk_token": null, "errors": "replace",
  "model_max_length": 32768, "split_special_tokens": false, "clean_up_tokenization_spaces": false})";
constexpr const char* qwen_chat = R"({"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": false,
  "add_prefix_space": false, "added_tokens_decoder": {}, "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
  "bos_token": null, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": null, "errors": "replace",
  "model_max_length": 1010000, "split_special_tokens": false, "clean_up_tokenization_spaces": false})";

// <|endoftext|> of the Qwens is 151643, <|im_end|> 151645; of OLMoE 50279. </s> of Mixtral is 2.
const checkpoint checkpoints[] = {
    {"Mixtral_8x7B", mixtral, {2}, {2}, {2}},
    {"Mixtral_8x7B_Instruct", mixtral, {2}, {2}, {2}},
    {"Mixtral_8x22B", mixtral, {2}, {2}, {2}},
    {"Mixtral_8x22B_Instruct", mixtral, {2}, {2}, {2}},
    {"OLMoE_1B_7B_0924", olmoe, {50279}, {50279}, {50279}},
    {"Qwen1_5_MoE_A2_7B", qwen_base, {151643}, {151643}, {151643}},
    {"Qwen1_5_MoE_A2_7B_Chat", qwen_chat, {151645, 151643}, {151645}, {151643, 151645}},
    {"Qwen2_57B_A14B", qwen_base, {151643}, {151643}, {151643}},
    {"Qwen2_57B_A14B_Instruct", qwen_chat, {151645, 151643}, {151643}, {151643, 151645}},
    {"Qwen3_30B_A3B", qwen_chat, {151645, 151643}, {151645}, {151643, 151645}},
    {"Qwen3_30B_A3B_Base", qwen_base, {151643}, {151643}, {151643}},
    {"Qwen3_30B_A3B_Instruct_2507", qwen_chat, {151645, 151643}, {151645}, {151643, 151645}},
    {"Qwen3_Coder_30B_A3B", qwen_chat, {151645, 151643}, {151645}, {151643, 151645}},
    {"Qwen3_235B_A22B", qwen_chat, {151645, 151643}, {151645}, {151643, 151645}},
    // A fine-tune for ChatML whose other files are its base's: only the tokenizer has the end of a turn.
    {"chatml_on_Mixtral", chatml_on_mixtral, {2}, {2}, {2, 32000}},
    {"chatml_on_Mixtral_without_generation_config", chatml_on_mixtral, {}, {2}, {2, 32000}},
    {"chat_tokenizer_on_a_Qwen_base", qwen_chat, {151643}, {151643}, {151643, 151645}},
    {"config_alone_knows", qwen_base, {}, {151645}, {151643, 151645}},
    {"generation_config_and_config_differ", mixtral, {2}, {32000}, {2, 32000}},
    {"no_tokenizer_config", "", {2}, {}, {2}},
    {"nobody_knows", "", {}, {}, {}},
};

std::shared_ptr<const text::tokenizer> tokenizer_of(const checkpoint& x) {
  auto file = text::small_tokenizer();
  file["post_processor"] = nullptr;
  auto& vocab = file["model"]["vocab"];
  const std::string config = x.tokenizer_config;
  const bool is_qwen = config.find("Qwen2Tokenizer") != std::string::npos;
  // Replaces the small tokenizer's entries with these ids.
  vocab = {{"a", 100}, {"b", 101}, {"ab", 102}, {"Ġ", 103}, {"Ġab", 104}};
  vocab.update({{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}, {"<|padding|>", 3}});
  vocab["<|im_end|>"] = is_qwen ? 151645 : 32000;
  vocab["<|im_start|>"] = is_qwen ? 151644 : 32001;
  vocab["<|endoftext|>"] = is_qwen ? 151643 : 50279;
  file["added_tokens"] = json::array();
  return text::tokenizer::parse(file.dump(), config, x.name);
}

class end_tokens : public testing::TestWithParam<checkpoint> {};

TEST_P(end_tokens, are_of_all_three_files) {
  const auto& x = GetParam();
  model::generation_config generation;
  generation.eos_token_ids = x.generation;
  model::model_config config;
  config.eos_token_ids = x.config;
  EXPECT_EQ(end_tokens_of(generation, config, *tokenizer_of(x)), x.ends);
}

INSTANTIATE_TEST_SUITE_P(published, end_tokens, testing::ValuesIn(checkpoints),
                         [](const auto& test) { return test.param.name; });

} // namespace

} // namespace troupe
