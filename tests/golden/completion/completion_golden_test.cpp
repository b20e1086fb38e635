// One completion with its logprobs, to the last bit, on every instruction set: completion.txt holds what any
// x86 machine must print. The model's weights come from a counter-based generator, so nothing else is stored.
//
// After an intended change of the order of operations: run with TROUPE_WRITE_GOLDEN=1, and explain it in the
// commit.
#include "kernels/model/local_forward.hpp"
#include "kernels/model/open_weights.hpp"
#include "kernels/model/required_tensors.hpp"
#include "kernels/sampling.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/unit/kernels/random_plan.hpp"

#include <bit>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <optional>
#include <sstream>

namespace troupe::model {
namespace {

constexpr const char* golden_file = TROUPE_SOURCE_DIR "/tests/golden/completion/completion.txt";
constexpr std::size_t prompt_tokens = 75;
constexpr std::size_t new_tokens = 24;

// Few sizes are multiples of 32: every kernel has a remainder.
constexpr const char* config_json = R"({
  "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "vocab_size": 300, "hidden_size": 104,
  "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 40,
  "intermediate_size": 88, "num_local_experts": 6, "num_experts_per_tok": 2, "hidden_act": "silu",
  "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 256, "tie_word_embeddings": false,
  "sliding_window": null, "torch_dtype": "bfloat16"
})";

/// Uniform in [−1, 1): exact in FP32, no rounding by any library.
float uniform(std::uint32_t tensor, std::size_t i) {
  const auto words = kernels::philox4x32({static_cast<std::uint32_t>(i), tensor, 0, 0}, {2024, 7});
  return static_cast<float>(static_cast<std::int32_t>(words[0]) >> 8) * 0x1p-23F;
}

void write_model(const std::filesystem::path& folder) {
  std::ofstream(folder / "config.json") << config_json;
  const auto config = load_config(folder);
  auto tensors = dense_tensors(config);
  for (std::size_t layer = 0; layer < config.num_layers(); ++layer)
    for (auto& tensor : expert_layer_tensors(config, layer))
      tensors.push_back(std::move(tensor));
  std::string header = "{";
  std::vector<std::uint16_t> data;
  for (std::uint32_t t = 0; t < tensors.size(); ++t) {
    const auto& name = tensors[t].name;
    const auto& shape = tensors[t].shape;
    const std::size_t begin = data.size() * 2;
    const std::size_t count = shape.size() == 1 ? shape[0] : shape[0] * shape[1];
    const bool norm = name.find("norm") != std::string::npos;
    // Matrices roughly keep the size of their inputs: √3 / √inputs, a power of two.
    const float scale = name.find("embed") != std::string::npos ? 1.0F : 0.125F;
    for (std::size_t i = 0; i < count; ++i)
      data.push_back(kernels::to_bfloat16(norm ? 1.0F + 0.25F * uniform(t, i) : scale * uniform(t, i)).bits);
    header += (t == 0 ? "\"" : ",\"") + name + R"(":{"dtype":"BF16","shape":[)" + std::to_string(shape[0])
              + (shape.size() == 1 ? "" : "," + std::to_string(shape[1])) + R"(],"data_offsets":[)"
              + std::to_string(begin) + "," + std::to_string(data.size() * 2) + "]}";
  }
  header += "}";
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  const std::uint64_t length = header.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << header;
  file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size() * 2));
}

void print(std::ostream& out, std::size_t position, const kernels::sampled_token& token) {
  char line[64];
  std::snprintf(line, sizeof line, "%zu %u %08x\n", position, token.token,
                std::bit_cast<std::uint32_t>(token.logprob));
  out << line;
}

/// A section of the file.
struct stored_case {
  std::string name;
  dtype_choice dtype;
  std::optional<kernels::dtype> kv_type{}; // nothing: the model's
};

/// Position, token and the bits of its logprob: of every prompt token after the first, then of every drawn
/// token.
/// @param chunk  tokens of a prefill step
std::string complete(kernels::context& ctx, const std::filesystem::path& folder, const stored_case& stored,
                     std::size_t chunk, weight_coding coding = weight_coding::none,
                     const quantization& quant = {}) {
  local_forward forward(
      ctx,
      open_weights(folder, load_config(folder), {.dtype = stored.dtype, .quant = quant, .coding = coding}),
      {.max_positions = prompt_tokens + new_tokens, .kv_type = stored.kv_type});
  const std::size_t vocab = forward.config().vocab_size;
  std::vector<std::uint32_t> tokens;
  for (std::size_t i = 0; i < prompt_tokens; ++i)
    tokens.push_back(kernels::philox4x32({static_cast<std::uint32_t>(i), 0, 1, 0}, {2024, 7})[0]
                     % static_cast<std::uint32_t>(vocab));
  const auto logits = forward.prefill(tokens, chunk);
  std::ostringstream out;
  std::vector<kernels::logprob_row> wanted;
  for (std::size_t i = 0; i + 1 < prompt_tokens; ++i)
    wanted.push_back({.logits_row = i, .token = tokens[i + 1]});
  std::vector<kernels::sampled_token> prompt(wanted.size());
  kernels::token_logprobs(ctx, kernels::view_of(logits.data(), prompt_tokens, vocab), wanted, prompt);
  for (std::size_t i = 0; i < prompt.size(); ++i)
    print(out, i + 1, prompt[i]);
  std::vector<float> last(logits.end() - static_cast<std::ptrdiff_t>(vocab), logits.end());
  for (std::size_t i = 0; i < new_tokens; ++i) {
    const auto position = static_cast<std::uint32_t>(prompt_tokens + i);
    const kernels::sampling_row row{.params = {.temperature = 0.9F, .top_p = 0.95F},
                                    .key = {.seed = 42, .choice = 0, .position = position, .draw = 0}};
    kernels::sampled_token drawn;
    kernels::sample(ctx, kernels::view_of(last.data(), 1, vocab), {&row, 1}, {&drawn, 1});
    print(out, position, drawn);
    last = forward.append({&drawn.token, 1});
  }
  return out.str();
}

std::string expected_of(const stored_case& stored) {
  std::ifstream file(golden_file);
  std::string text;
  bool inside = false;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("# "))
      inside = line == "# " + stored.name;
    else if (inside)
      text += line + "\n";
  return text;
}

} // namespace

TEST(completion, gives_the_stored_bits_on_every_instruction_set) {
  const test::scratch_folder folder;
  write_model(folder.path());
  kernels::thread_pool pool({.threads = 2});
  const std::vector<stored_case> cases{
      {"bfloat16", dtype_choice::bfloat16},
      {"float32", dtype_choice::float32},
      {"bfloat16, int8 cache", dtype_choice::bfloat16, kernels::dtype::int8}};
  if (std::getenv("TROUPE_WRITE_GOLDEN") != nullptr) {
    kernels::context ctx(pool, kernels::isa::portable);
    std::ofstream file(golden_file);
    for (const auto& stored : cases)
      file << "# " << stored.name << "\n" << complete(ctx, folder.path(), stored, prompt_tokens);
    GTEST_SKIP() << "wrote " << golden_file;
  }
  for (const auto& stored : cases) {
    const auto expected = expected_of(stored);
    ASSERT_FALSE(expected.empty()) << golden_file;
    for (const auto set : kernels::supported_isas()) {
      kernels::context ctx(pool, set);
      for (const std::size_t chunk : {prompt_tokens, std::size_t{7}, std::size_t{1}}) {
        if (set == kernels::isa::portable && chunk == 1)
          continue; // slow, and covered by the other sets
        EXPECT_EQ(complete(ctx, folder.path(), stored, chunk), expected)
            << stored.name << ", " << kernels::name_of(set) << ", prefill in chunks of " << chunk;
      }
      if (stored.dtype == dtype_choice::bfloat16) {
        EXPECT_EQ(complete(ctx, folder.path(), stored, 7, weight_coding::exponents), expected)
            << stored.name << ", " << kernels::name_of(set) << ", coded weights";
      }
    }
  }
}

TEST(completion, is_the_same_under_any_plan) {
  const test::scratch_folder folder;
  write_model(folder.path());
  kernels::thread_pool pool({.threads = 2});
  std::vector<const kernels::kernel_table*> tables;
  for (const auto set : kernels::supported_isas())
    if (set != kernels::isa::portable || kernels::supported_isas().size() == 1)
      tables.push_back(&kernels::table_of(set)); // the reference is slow, and covered by plan_test
  constexpr auto int8_rows = kernels::row_quant::int8;

  struct model_kind {
    stored_case stored;
    quantization quant{};
  };

  const std::vector<model_kind> kinds{
      {{"bfloat16", dtype_choice::bfloat16}},
      {{"float32", dtype_choice::float32}},
      {{"bfloat16, int8 cache", dtype_choice::bfloat16, kernels::dtype::int8}},
      {{"int8", dtype_choice::bfloat16}, {expert_quant::int8, dense_quant::int8}},
      {{"int8, int8 rows", dtype_choice::bfloat16}, {expert_quant::int8, dense_quant::int8, int8_rows}},
      {{"int4", dtype_choice::float32}, {expert_quant::int4_group32, dense_quant::int4_group32}},
      {{"int4, int8 rows", dtype_choice::bfloat16},
       {expert_quant::int4_group64, dense_quant::int8, int8_rows}}};
  std::uint32_t seed = 0;
  for (const auto& [stored, quant] : kinds) {
    auto expected = expected_of(stored);
    if (quant.any()) {
      kernels::context ctx(pool, kernels::supported_isas().front());
      expected = complete(ctx, folder.path(), stored, prompt_tokens, weight_coding::none, quant);
    }
    ASSERT_FALSE(expected.empty()) << stored.name;
    for (const std::size_t chunk : {prompt_tokens, std::size_t{40}, std::size_t{9}, std::size_t{2}}) {
      const auto plan = kernels::plan_drawer(tables, ++seed).draw();
      kernels::context ctx(pool, plan);
      const auto coding = plan.coded_weights ? weight_coding::exponents : weight_coding::none;
      ASSERT_TRUE(complete(ctx, folder.path(), stored, chunk, coding, quant) == expected)
          << stored.name << ", prefill in chunks of " << chunk << ", plan " << seed;
    }
  }
}

} // namespace troupe::model
