// Models with matrices too long for the integer sums of int8 rows are refused at opening.
#include "kernels/model/cpu_weights.hpp"
#include "tests/reference/random_model.hpp"

#include <gtest/gtest.h>
#include <memory>
#include <string>

namespace troupe::model {
namespace {

TEST(int8_rows, with_more_inputs_than_their_sums_hold_are_refused) {
  const test::random_model model("qwen2_dense_layers");
  const auto loaded = load_config(model.folder());
  auto weights = std::make_shared<const checkpoint>(checkpoint::open(model.folder()));
  const auto open = [&](std::size_t intermediate, expert_quant experts, dense_quant dense,
                        kernels::row_quant rows) {
    auto config = loaded;
    config.layers[1].find<route_op>()->experts.intermediate = intermediate;
    config.layers[0].find<feed_forward_op>()->mlp.gate.shape.front() = intermediate;
    try {
      const checkpoint_source source(weights, config, kernels::dtype::bf16, {experts, dense, rows});
    } catch (const model_error& e) {
      return std::string{e.what()};
    }
    return std::string{"accepted"};
  };
  constexpr auto int8 = kernels::row_quant::int8;
  EXPECT_EQ(open(133'144, expert_quant::int8, dense_quant::int8, int8), "accepted");
  EXPECT_EQ(open(133'145, expert_quant::int8, dense_quant::none, int8),
            "int8 activations: layer 1: an expert's down projection has 133145 inputs, and sums with "
            "int8-channel weights "
            "hold 133144: leave activations as they are for this model");
  EXPECT_EQ(open(140'912, expert_quant::none, dense_quant::int4_group32, int8),
            "int8 activations: 'model.layers.0.mlp.down_proj.weight' has 140912 inputs, and sums with "
            "int4-group32 weights "
            "hold 140911: leave activations as they are for this model");
  EXPECT_EQ(open(140'912, expert_quant::int4_channel, dense_quant::none, int8), "accepted");
  EXPECT_EQ(open(133'145, expert_quant::int8, dense_quant::int8, kernels::row_quant::none), "accepted");
  EXPECT_EQ(open(133'145, expert_quant::none, dense_quant::none, int8), "accepted");
}

} // namespace
} // namespace troupe::model
