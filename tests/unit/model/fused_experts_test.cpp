// Experts as transformers 5 may save them, a layer in two tensors: the same bits as separate ones.
#include "kernels/model/checkpoint.hpp"
#include "kernels/model/required_tensors.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/reference/tested_backends.hpp"
#include "tests/unit/model/batch_runner.hpp"
#include "tests/unit/model/folder_refusal.hpp"
#include "tests/unit/model/safetensors_edit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::model {
namespace {

using test::refusal;
using test::safetensors_edit;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Fuses the experts of every layer.
/// @param router_moves  whether Mixtral's router gets transformers 5's name, too
void fuse_experts(const std::filesystem::path& folder, bool router_moves = true) {
  const auto config = load_config(folder);
  safetensors_edit file(folder / "model.safetensors");
  for (std::size_t layer = 0; layer < config.num_layers(); ++layer) {
    const auto* moe = config.layers[layer].moe();
    if (moe == nullptr)
      continue;
    const auto block = "model.layers." + std::to_string(layer) + ".mlp.";
    safetensors_edit::tensor gate_up{
        block + "experts.gate_up_proj", "", {moe->num_experts, 2 * moe->intermediate, config.hidden}, ""};
    safetensors_edit::tensor down{
        block + "experts.down_proj", "", {moe->num_experts, config.hidden, moe->intermediate}, ""};
    for (std::size_t e = 0; e < moe->num_experts; ++e) {
      const auto names = expert_tensors(config, layer, e);
      for (const auto& [name, fused] :
           {std::pair{names.gate.name, &gate_up}, std::pair{names.up->name, &gate_up},
            std::pair{names.down.name, &down}}) {
        auto one = file.take(name);
        fused->dtype = one.dtype;
        fused->bytes += one.bytes;
      }
    }
    file.tensors.push_back(std::move(gate_up));
    file.tensors.push_back(std::move(down));
    const auto& router_name = config.layers[layer].find<route_op>()->matrix.parts.front().name;
    if (router_moves && router_name != block + "gate.weight") {
      auto router = file.take(router_name);
      router.name = block + "gate.weight";
      file.tensors.push_back(std::move(router));
    }
  }
  file.write();
}

class fused_experts_of : public testing::TestWithParam<const char*> {};

TEST_P(fused_experts_of, each_architecture_give_the_bits_of_single_ones) {
  const test::random_model single(GetParam());
  const test::random_model fused(GetParam());
  fuse_experts(fused.folder());
  kernels::thread_pool pool({.threads = 2});
  kernels::context ctx(pool);
  const std::vector<test::batch_part> prompt{{0, {3, 14, 15, 92, 65, 35, 89, 79}}};
  for (const auto experts : {expert_quant::none, expert_quant::int8, expert_quant::int4_group32}) {
    const quantization quant{experts, dense_quant::none, kernels::row_quant::none};
    const auto logits = [&](const test::random_model& model) {
      return test::batch_runner(test::open_backend("cpu", ctx, model.folder(), dtype_choice::bfloat16, quant))
          .run(prompt);
    };
    EXPECT_EQ(logits(fused), logits(single)) << quant.name();
  }
  auto weights = checkpoint::open(fused.folder());
  weights.match(load_config(fused.folder()));
  EXPECT_THAT(weights.unused(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(architecture, fused_experts_of,
                         testing::Values("mixtral", "olmoe", "qwen2", "qwen3"));

TEST(fused_experts, may_lie_beside_a_router_of_the_old_name) {
  const test::random_model model("mixtral");
  fuse_experts(model.folder(), false);
  EXPECT_EQ(refusal(model.folder()), "accepted");
}

TEST(fused_experts, that_are_misshaped_or_incomplete_are_named) {
  const test::random_model model("qwen3");
  fuse_experts(model.folder());
  safetensors_edit file(model.folder() / "model.safetensors");
  auto transposed = file.take("model.layers.0.mlp.experts.gate_up_proj");
  std::swap(transposed.shape[1], transposed.shape[2]);
  file.tensors.push_back(std::move(transposed));
  file.take("model.layers.1.mlp.experts.down_proj");
  file.write();
  const auto message = refusal(model.folder());
  EXPECT_THAT(message, HasSubstr(": 2 problems with the weights:"));
  EXPECT_THAT(message,
              HasSubstr("tensor 'model.layers.0.mlp.experts.gate_up_proj' has shape [16, 64, 80], expected "
                        "[16, 80, 64]"));
  EXPECT_THAT(message, HasSubstr("tensor 'model.layers.1.mlp.experts.down_proj' is missing, expected shape "
                                 "[16, 64, 40]"));
}

TEST(fused_experts, beside_single_ones_are_not_needed) {
  const test::random_model model("qwen3");
  safetensors_edit file(model.folder() / "model.safetensors");
  file.tensors.push_back({"model.layers.0.mlp.experts.gate_up_proj", "F32", {1}, "four"});
  file.write();
  auto weights = checkpoint::open(model.folder());
  weights.match(load_config(model.folder()));
  EXPECT_THAT(weights.unused(), ElementsAre("model.layers.0.mlp.experts.gate_up_proj"));
}

} // namespace
} // namespace troupe::model
