#include "services/troupe/model_table.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

pages::model_page deepseek() {
  pages::model_page page;
  page.model = "DeepSeek-V3";
  page.loads = true;
  page.weights = "91991 tensors";
  page.end_tokens = {1};
  page.tokenizer = "tokenizer.json, 128815 tokens";
  auto& program = page.program.emplace();
  program = {
      .architecture = "DeepseekV3ForCausalLM",
      .layers = 61,
      .dense_layers = 3,
      .hidden = 7168,
      .vocabulary = 129280,
      .context = 163840,
      .attention = {{.kind = "latent",
                     .layers = 61,
                     .heads = 128,
                     .kv_heads = 1,
                     .head_dim = 192,
                     .latent_dim = 512,
                     .value_dim = 128,
                     .kv_bytes_per_token = 70272}},
      .experts =
          {{.layers = 58, .experts = 256, .per_token = 8, .intermediate = 2048, .shared_intermediate = 2048}},
      .parameters = 671026419200,
      .active_parameters = 37552297472,
      .bfloat16_bytes = 1342052838400};
  page.needs = {.numerics_class = "cpu-x86/bf16/none/r1",
                .attention_weights = std::uint64_t{32} << 30,
                .expert_weights = std::uint64_t{1218} << 30,
                .kv_bytes_per_token = 70272,
                .kv_cache = std::uint64_t{1} << 30,
                .one_machine = std::uint64_t{1331} << 30,
                .attention_worker = std::uint64_t{34} << 30,
                .expert_workers = 8,
                .expert_worker = std::uint64_t{164} << 30,
                .expert_worker_of_fewer = std::uint64_t{187} << 30};
  return page;
}

TEST(model_table, says_all_of_a_model) {
  EXPECT_EQ(model_table(deepseek()), R"(architecture  DeepseekV3ForCausalLM
layers        61: 3 dense, 58 routed
hidden        7168
attention     latent, 128 heads of 192 (values 128), a latent of 512
experts       in 58 layers: 256 of 2048, 8 per token, 2048 shared
context       163840 tokens
vocabulary    129280 tokens
parameters    671 B, 37.6 B per token
weights       1.22 TiB in bfloat16
loaded        attention side 32.0 GiB, experts 1.19 TiB (cpu-x86/bf16/none/r1)
KV cache      70272 bytes per token
memory        one machine: 1.30 TiB, with a KV cache of 1.00 GiB
              attention worker: 34.0 GiB; each of 8 expert workers: 164 GiB, 187 GiB so that one may be lost
end tokens    1
tokenizer     tokenizer.json, 128815 tokens
files         91991 tensors
loads         yes
)");
}

TEST(model_table, names_windows_and_what_is_left_aside) {
  auto page = deepseek();
  page.loads = false;
  page.error = "config.json: field 'x' is missing";
  page.ignored = {"a", "b"};
  page.unused_tensors.assign(14, "t");
  page.program->attention = {
      {.kind = "grouped",
       .layers = 30,
       .heads = 64,
       .kv_heads = 8,
       .head_dim = 64,
       .window = 128,
       .sinks = true,
       .kv_bytes_per_token = 24576},
      {.kind = "grouped", .layers = 31, .heads = 1, .kv_heads = 1, .head_dim = 64, .positions = false}};
  const auto text = model_table(page);
  for (const auto* line :
       {"\nattention       in 30 layers: grouped, 64 heads of 64, 8 KV heads, window of 128, sinks\n",
        "\n                in 31 layers: grouped, 1 head of 64, 1 KV head, no positions\n",
        "\nKV cache        70272 bytes per token, 24576 of them in layers with a window of 128\n",
        "\nignored         a, b\n", "\nunused tensors  t, t, t, t, t, t, t, t, t, t, t, t and 2 more\n",
        "\nloads           no\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(model_table, of_a_model_of_which_nothing_is_known) {
  pages::model_page page;
  page.weights = "none";
  page.error = "config.json: field 'architectures' is missing";
  EXPECT_EQ(model_table(page), "tokenizer  none read\nfiles      no weights\nloads      no\n");
}

} // namespace
} // namespace troupe
