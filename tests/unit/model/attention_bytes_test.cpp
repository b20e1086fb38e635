// What the attention side will take is what it takes.
#include "kernels/model/attention_bytes.hpp"
#include "kernels/model/cpu_runner.hpp"
#include "tests/reference/random_model.hpp"

#include <gtest/gtest.h>

namespace troupe::model {
namespace {

class attention_bytes_of : public testing::TestWithParam<const char*> {};

TEST_P(attention_bytes_of, a_family_are_what_it_takes_once_loaded) {
  const test::random_model model(GetParam());
  const auto config = load_config(model.folder());
  auto weights = checkpoint::open(model.folder());
  weights.match(config);
  const auto tensors = std::make_shared<const checkpoint>(std::move(weights));
  for (const auto type : {kernels::dtype::bf16, kernels::dtype::f32})
    for (const auto dense : {dense_quant::none, dense_quant::int8, dense_quant::int4_group32}) {
      const quantization quant{.dense = dense};
      auto expected = attention_bytes(config, type, quant);
      if (type == kernels::dtype::f32 && dense == dense_quant::none) // embeddings stay as they are stored
        expected += embedding_bytes(kernels::dtype::bf16, config.vocab_size, config.hidden)
                    - embedding_bytes(kernels::dtype::f32, config.vocab_size, config.hidden);
      EXPECT_EQ(cpu_runner::load(std::make_shared<const checkpoint_source>(tensors, config, type, quant), {})
                    .num_bytes(),
                expected);
    }
}

INSTANTIATE_TEST_SUITE_P(model, attention_bytes_of,
                         testing::Values("mixtral", "qwen2_dense_layers", "deepseek_v2", "moonlight",
                                         "glm4_moe", "ernie4_5_moe", "granitemoeshared", "phimoe", "gpt_oss",
                                         "llama4", "gpt_moe"),
                         [](const auto& info) { return std::string{info.param}; });

} // namespace
} // namespace troupe::model
