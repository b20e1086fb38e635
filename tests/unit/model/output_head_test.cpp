// An output head that config.json does not mention.
#include "kernels/model/output_head.hpp"

#include "tests/reference/random_model.hpp"
#include "tests/unit/model/safetensors_edit.hpp"

#include <gtest/gtest.h>

namespace troupe::model {
namespace {

using test::random_model;
using test::safetensors_edit;

class output_head_test : public testing::Test {
 protected:
  output_head_test() { config.tie_word_embeddings = true; }

  safetensors_edit edit() const { return safetensors_edit(model.folder() / "model.safetensors"); }

  const random_model model{"mixtral"};
  model_config config = load_config(model.folder());
};

TEST_F(output_head_test, that_differs_from_the_embeddings_is_the_models_own) {
  EXPECT_TRUE(has_own_output_head(model.folder(), config));
  config.tie_word_embeddings = false;
  EXPECT_FALSE(has_own_output_head(model.folder(), config)) << "the configuration says so already";
}

TEST_F(output_head_test, that_equals_them_or_is_not_there_is_theirs) {
  auto file = edit();
  file.take("lm_head.weight");
  file.write();
  EXPECT_FALSE(has_own_output_head(model.folder(), config));
  auto embeddings = edit().take("model.embed_tokens.weight");
  embeddings.name = "lm_head.weight";
  file.tensors.push_back(embeddings);
  file.write();
  EXPECT_FALSE(has_own_output_head(model.folder(), config));
  file.tensors.back().bytes.back() ^= 1;
  file.write();
  EXPECT_TRUE(has_own_output_head(model.folder(), config)) << "its last bit counts";
}

TEST(output_head, is_compared_with_the_embeddings_by_the_names_of_its_program) {
  const random_model gpt("gpt_moe");
  const auto config = load_config(gpt.folder());
  ASSERT_TRUE(config.tie_word_embeddings);
  ASSERT_NE(config.embeddings.name, "model.embed_tokens.weight");
  safetensors_edit file(gpt.folder() / "model.safetensors");
  auto embeddings = file.take(config.embeddings.name);
  file.tensors.push_back(embeddings);
  embeddings.name = config.lm_head.name;
  file.tensors.push_back(embeddings);
  file.write();
  EXPECT_FALSE(has_own_output_head(gpt.folder(), config));
  file.tensors.back().bytes.back() ^= 1;
  file.write();
  EXPECT_TRUE(has_own_output_head(gpt.folder(), config));
}

} // namespace
} // namespace troupe::model
