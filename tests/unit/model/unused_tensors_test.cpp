// Tensors that a model does not need are listed, and cause no error.
#include "kernels/model/checkpoint.hpp"
#include "kernels/model/open_weights.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/unit/model/folder_refusal.hpp"
#include "tests/unit/model/safetensors_edit.hpp"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::model {
namespace {

using json = nlohmann::json;
using test::random_model;
using test::refusal;
using test::safetensors_edit;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> unused(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  open_weights(folder, load_config(folder), {.unused_tensors = [&](std::span<const std::string> told) {
                 names.assign(told.begin(), told.end());
               }});
  return names;
}

void edit_index(const std::filesystem::path& folder, const std::function<void(json&)>& edit) {
  const auto path = folder / "model.safetensors.index.json";
  std::ifstream in(path);
  auto index = json::parse(in);
  edit(index["weight_map"]);
  std::ofstream(path) << index;
}

TEST(unused_tensors, are_named_whatever_their_type_and_shape) {
  const random_model model("mixtral");
  EXPECT_THAT(unused(model.folder()), IsEmpty());
  safetensors_edit file(model.folder() / "model.safetensors");
  file.tensors.push_back({"v_head.summary.weight", "F32", {1, 1}, "four"});
  file.tensors.push_back({"model.empty", "BF16", {0, 64}, ""});
  file.tensors.push_back({"model.layers.0.self_attn.q_proj.bias", "F16", {2}, "four"});
  file.tensors.push_back({"model.counter", "I64", {1}, "eight..."});
  file.tensors.push_back({"model.half_bytes", "F4", {3}, "xx"});
  file.tensors.push_back({"model.of_tomorrow", "E5M9", {7}, "any"});
  file.tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {1}, "four"});
  file.write();
  EXPECT_THAT(unused(model.folder()),
              ElementsAre("v_head.summary.weight", "model.empty", "model.layers.0.self_attn.q_proj.bias",
                          "model.counter", "model.half_bytes", "model.of_tomorrow"));
}

TEST(unused_tensors, behind_the_last_layer_are_named_unless_they_predict_further_tokens) {
  const auto with_layer_behind = [](const char* variant) {
    random_model model(variant);
    const auto behind = load_config(model.folder()).num_layers();
    safetensors_edit file(model.folder() / "model.safetensors");
    file.tensors.push_back({"model.layers." + std::to_string(behind) + ".more.weight", "F32", {1}, "four"});
    file.write();
    return unused(model.folder());
  };
  EXPECT_THAT(with_layer_behind("glm4_moe"), IsEmpty());
  EXPECT_THAT(with_layer_behind("mixtral"), ElementsAre(HasSubstr(".more.weight")));
}

TEST(unused_tensors, that_the_index_lists_and_no_file_has_are_named) {
  const random_model model("mixtral_sharded");
  edit_index(model.folder(),
             [](json& map) { map["model.extra.weight"] = "model-00001-of-00003.safetensors"; });
  EXPECT_THAT(unused(model.folder()),
              ElementsAre("model.extra.weight (listed, and not in model-00001-of-00003.safetensors)"));
}

TEST(unused_tensors, a_tied_head_that_is_only_listed_says_nothing) {
  const random_model model("mixtral_sharded");
  std::ifstream in(model.folder() / "config.json");
  auto config = json::parse(in);
  config["tie_word_embeddings"] = true;
  std::ofstream(model.folder() / "config.json") << config;
  safetensors_edit file(model.folder() / "model-00003-of-00003.safetensors");
  file.take("lm_head.weight");
  file.write();
  EXPECT_THAT(unused(model.folder()), IsEmpty());
}

TEST(unused_tensors, what_the_index_does_not_list_is_used_where_it_is) {
  const random_model model("mixtral_sharded");
  edit_index(model.folder(), [](json& map) { map.erase("model.norm.weight"); });
  EXPECT_THAT(unused(model.folder()), IsEmpty());
}

TEST(unused_tensors, are_not_those_that_are_missing) {
  const random_model model("mixtral_sharded");
  safetensors_edit file(model.folder() / "model-00003-of-00003.safetensors");
  file.take("model.norm.weight");
  file.write();
  EXPECT_THAT(refusal(model.folder()),
              HasSubstr("tensor 'model.norm.weight' is missing, expected shape [64] (the index says it is in "
                        "model-00003-of-00003.safetensors)"));
}

TEST(unused_tensors, are_not_those_of_a_type_that_weights_may_not_have) {
  const random_model model("mixtral");
  safetensors_edit file(model.folder() / "model.safetensors");
  auto norm = file.take("model.norm.weight");
  norm.dtype = "I16";
  file.tensors.push_back(std::move(norm));
  file.write();
  EXPECT_THAT(refusal(model.folder()),
              HasSubstr("tensor 'model.norm.weight' has type I16, supported are F32, F16 and BF16"));
}

} // namespace
} // namespace troupe::model
