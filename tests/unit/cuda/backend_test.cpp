// The parts of the CUDA backend that need no GPU, and its handling of experts.
#include "kernels/model/cuda/cuda_backend.hpp"

#include "kernels/cuda/dequantize.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/emulated_faults.hpp"
#include "kernels/error.hpp"
#include "kernels/model/cuda/block_copies.hpp"
#include "kernels/model/cuda/matrix_image.hpp"
#include "kernels/model/open_weights.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/unit/cuda/emulated_room.hpp"

#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace troupe::model {
namespace {

class cuda_backend_test : public testing::Test {
 protected:
  std::shared_ptr<const tensor_source> open(const quantization& quant = {},
                                            dtype_choice dtype = dtype_choice::bfloat16) const {
    return open_tensors(model_.folder(), config_, {.dtype = dtype, .quant = quant});
  }

  test::random_model model_{"qwen2_dense_layers"}; // layer 1 is routed, the others are dense
  model_config config_ = load_config(model_.folder());
  kernels::thread_pool pool_{{.threads = 1}};
  kernels::context ctx_{pool_};
};

std::string refusal(const model_config& config, kernels::dtype type = kernels::dtype::bf16,
                    const quantization& quant = {}) {
  return cuda_model_problem(config, type, quant).value_or("accepted");
}

TEST_F(cuda_backend_test, names_what_there_are_no_kernels_for_and_what_to_do) {
  EXPECT_EQ(refusal(config_), "accepted");
  EXPECT_EQ(refusal(config_, kernels::dtype::f32),
            "a GPU computes in bfloat16, and this model is to be computed in float32; choose --dtype "
            "bfloat16 or --device cpu");
  EXPECT_EQ(
      refusal(config_, kernels::dtype::bf16,
              {.experts = expert_quant::int8, .dense = dense_quant::none, .rows = kernels::row_quant::int8}),
      "a GPU's kernels take rows in bfloat16; choose --activation-quant none or --device cpu");
  auto odd = config_;
  odd.hidden = 60;
  EXPECT_EQ(refusal(odd), "a hidden size of 60 is not a multiple of 8, as its kernels want it; choose "
                          "--device cpu");
  auto wide = config_;
  wide.layers[2].find<attend_op>()->head_dim = 264;
  EXPECT_EQ(refusal(wide), "layer 2: a head_dim of 264 is above 256; choose --device cpu");
  auto many = config_;
  many.layers[1].find<route_op>()->experts.num_experts = 2000;
  EXPECT_EQ(refusal(many), "layer 1: its router chooses among at most 1024 experts at most 64, this model 2 "
                           "of 2000; choose --device cpu");
}

TEST_F(cuda_backend_test, names_widths_of_latent_attention_that_its_kernels_do_not_take) {
  const test::random_model latent{"deepseek_v3"};
  const auto config = load_config(latent.folder());
  EXPECT_EQ(refusal(config), "accepted");
  auto odd = config;
  for (auto& op : odd.layers[1].operations)
    if (auto* project = std::get_if<project_op>(&op); project && project->from == rows_of::query_normed)
      project->matrix.parts.front().shape.back() = 12; // q_lora_rank
  EXPECT_EQ(refusal(odd), "layer 1: a product's input of 12 is not a multiple of 8, as its kernels want it; "
                          "choose --device cpu");
  auto wide = config;
  auto& attend = *wide.layers[2].find<attend_latent_op>();
  attend.nope_dim = 640 - attend.rope_dim;
  EXPECT_EQ(refusal(wide), "accepted") << "as wide as a key of the cache";
  attend.nope_dim += 8;
  EXPECT_EQ(refusal(wide), "layer 2: a qk_head_dim of 648 is above 640; choose --device cpu");
}

TEST_F(cuda_backend_test, refuses_a_model_that_it_cannot_compute) {
  try {
    make_cuda_backend(ctx_, open({}, dtype_choice::float32), 0);
    FAIL() << "accepted";
  } catch (const model_error& error) {
    EXPECT_NE(std::string{error.what()}.find("choose --dtype bfloat16"), std::string::npos) << error.what();
  }
  EXPECT_THROW(make_cuda_backend(ctx_, open(), 7), kernels::kernel_error) << "there is one device";
}

TEST_F(cuda_backend_test, a_device_that_is_not_there_is_named) {
  EXPECT_EQ(cuda_problem(0), std::nullopt);
  EXPECT_EQ(cuda_problem(2), "this machine has 1 GPU, number 0; choose one of them, cpu or auto");
}

TEST_F(cuda_backend_test, matrices_of_one_width_are_packed_as_one) {
  const auto tensors = open();
  const std::string prefix = "model.layers.0.self_attn.";
  const matrix_ref both{.parts = {{prefix + "q_proj.weight", {}}, {prefix + "k_proj.weight", {}}}};
  const auto image = pack_matrix(*tensors, both, kernels::isa::portable);
  std::vector<std::byte> want;
  for (const auto& part : both.parts) {
    const auto& tensor = tensors->read(part.name);
    want.insert(want.end(), tensor.data, tensor.data + tensor.num_bytes);
  }
  EXPECT_EQ(image.shape.inputs, config_.hidden);
  EXPECT_EQ(image.weights, want) << "bf16 is kept as the checkpoint has it";
  EXPECT_TRUE(image.channel_scales.empty());
}

TEST_F(cuda_backend_test, tables_of_positions_count_once) {
  const test::random_model llama4{"llama4_maverick"}; // two layers have a temperature
  const auto config = load_config(llama4.folder());
  const auto tensors = open_tensors(llama4.folder(), config, {.dtype = dtype_choice::bfloat16});
  const auto bytes_with = [&](std::size_t positions) {
    return make_cuda_backend(ctx_, tensors, 0)->load_attention({.max_positions = positions}, {})->num_bytes();
  };
  const auto of_position = (config.rope.rotary_dim + 1) * sizeof(float);
  EXPECT_EQ(bytes_with(48) - bytes_with(32), 16 * of_position);
}

TEST_F(cuda_backend_test, int8_weights_are_near_those_of_the_checkpoint) {
  const auto tensors = open();
  const std::string name = "model.layers.0.self_attn.o_proj.weight";
  const std::vector<tensor_requirement> parts{{name, {}}};
  const auto image =
      pack_matrix(*tensors, parts, {kernels::cuda::weight_format::int8, 0}, kernels::isa::portable);
  const auto values = tensors->floats(name);
  const auto& shape = image.shape;
  for (std::size_t o = 0; o < shape.outputs; ++o)
    for (std::size_t i = 0; i < shape.inputs; ++i) {
      const auto at = kernels::cuda::place_of(o, i);
      const auto block = at.strip * shape.chunks() + at.chunk;
      const auto index = ((block * 2 + at.half) * 32 + at.lane) * 4 + at.index / 4 * 2 + at.upper;
      std::uint32_t word = 0;
      std::memcpy(&word, image.weights.data() + index * sizeof word, sizeof word);
      const auto pair = kernels::cuda::int8_pair(word, kernels::cuda::pair_of(at.index));
      const auto q = at.index % 2 == 0 ? kernels::cuda::lower_float(pair) : kernels::cuda::upper_float(pair);
      EXPECT_NEAR(q * image.channel_scales[o], values[o * shape.inputs + i],
                  0.5001F * image.channel_scales[o]);
    }
}

TEST_F(cuda_backend_test, experts_come_and_go_and_their_memory_is_what_was_said) {
  for (const auto quant : {expert_quant::none, expert_quant::int8, expert_quant::int4_group32}) {
    const auto experts = make_cuda_backend(ctx_, open({.experts = quant}), 0)->make_experts();
    const auto before = kernels::cuda::emulated_memory_taken();
    const auto taken = [&] { return kernels::cuda::emulated_memory_taken() - before; };
    EXPECT_EQ(experts->expert_bytes(0), 0U) << "a dense layer";
    EXPECT_EQ(experts->num_bytes(), 0U);
    const auto count = config_.layers[1].moe()->num_experts;
    for (std::size_t i = 0; i < count; ++i) {
      experts->load(1, i);
      experts->load(1, i);
      EXPECT_GE(experts->num_bytes(), (i + 1) * experts->expert_bytes(1));
      EXPECT_EQ(experts->num_bytes(), taken());
    }
    EXPECT_LT(experts->num_bytes(), count * experts->expert_bytes(1) + count) << "rounded once for all";
    EXPECT_TRUE(experts->unload(1, 3));
    EXPECT_FALSE(experts->unload(1, 3));
    EXPECT_FALSE(experts->unload(9, 3));
    EXPECT_EQ(experts->num_bytes(), taken());
    experts->load(1, 3);
    EXPECT_EQ(experts->num_bytes(), taken());
    EXPECT_THROW(experts->load(0, 0), model_error);
    EXPECT_THROW(experts->load(1, 99), model_error);
  }
}

TEST_F(cuda_backend_test, an_expert_that_finds_no_memory_is_not_read) {
  const auto readable = make_cuda_backend(ctx_, open(), 0)->make_experts();
  const auto experts = make_cuda_backend(ctx_, open(), 0)->make_experts();
  for (const auto& file : std::filesystem::directory_iterator(model_.folder()))
    if (file.path().extension() == ".safetensors")
      std::filesystem::resize_file(file.path(), 1024);
  EXPECT_THROW(readable->load(1, 5), model_error) << "it cannot be read";
  const test::emulated_room none(0);
  try {
    experts->load(1, 5);
    FAIL() << "there is no memory";
  } catch (const kernels::kernel_error& error) {
    EXPECT_TRUE(error.is_out_of_memory());
    EXPECT_NE(std::string{error.what()}.find("out of memory; 0 of the device's "), std::string::npos)
        << error.what();
  }
}

TEST_F(cuda_backend_test, a_step_that_finds_no_memory_fails_alone) {
  const auto experts = make_cuda_backend(ctx_, open(), 0)->make_experts();
  experts->load(1, 2);
  constexpr std::size_t many = 600;
  const std::vector<std::byte> input(config_.hidden * 2);
  std::vector<std::byte> output(input.size());
  const std::vector<const std::byte*> in(many, input.data());
  const std::vector<std::byte*> out(many, output.data());
  const auto forward = [&](std::size_t rows) {
    const std::vector<expert_rows> batch{{2, std::span(in).first(rows), std::span(out).first(rows)}};
    return experts->forward(1, batch);
  };
  EXPECT_EQ(forward(4), std::nullopt);
  {
    const test::emulated_room little(4096);
    try {
      forward(many);
      ADD_FAILURE() << "there was memory for it";
    } catch (const kernels::kernel_error& error) {
      EXPECT_TRUE(error.is_out_of_memory()) << error.what();
    }
    EXPECT_EQ(forward(4), std::nullopt) << "those before fit as they did";
  }
  EXPECT_EQ(forward(many), std::nullopt);
}

TEST_F(cuda_backend_test, experts_have_room_for_what_the_device_has_left) {
  constexpr std::size_t gibibyte = std::size_t{1} << 30;
  const auto experts = make_cuda_backend(ctx_, open(), 0)->make_experts();
  const test::emulated_room room(8 * gibibyte);
  const auto first = experts->room();
  ASSERT_TRUE(first.has_value());
  EXPECT_LT(*first, 7 * gibibyte) << "a reserve stays free";
  EXPECT_GT(*first, 6 * gibibyte);
  experts->load(1, 0);
  EXPECT_EQ(experts->room(), first) << "what they take is theirs";
  const kernels::cuda::device_memory other(gibibyte / 64);
  EXPECT_EQ(experts->room(), *first - gibibyte / 64);
  const test::emulated_room none(0);
  EXPECT_EQ(experts->room(), experts->expert_bytes(1)) << "0 would say that there is no limit";
}

TEST_F(cuda_backend_test, experts_in_pinned_memory_have_the_hosts_room) {
  const auto bytes = make_cuda_backend(ctx_, open(), 0)->make_experts()->expert_bytes(1);
  const auto experts = make_cuda_backend(ctx_, open(), 0, {.expert_memory = 2 * bytes})->make_experts();
  EXPECT_EQ(experts->room(), std::nullopt);
  EXPECT_EQ(experts->num_bytes(), 0U);
  experts->load(1, 0);
  const auto one = experts->num_bytes();
  EXPECT_GT(one, 0U);
  EXPECT_LE(one, experts->expert_bytes(1));
  experts->load(1, 1);
  EXPECT_EQ(experts->num_bytes(), 2 * one);
  EXPECT_TRUE(experts->unload(1, 0));
  EXPECT_EQ(experts->num_bytes(), one);
}

TEST_F(cuda_backend_test, an_expert_that_is_not_here_is_named_and_nothing_is_written) {
  const auto experts = make_cuda_backend(ctx_, open(), 0)->make_experts();
  experts->load(1, 2);
  const std::vector<std::byte> input(config_.hidden * 2);
  std::vector<std::byte> output(input.size(), std::byte{0x5a});
  const auto* in = input.data();
  auto* out = output.data();
  const std::vector<expert_rows> batch{{2, {&in, 1}, {&out, 1}}, {5, {&in, 1}, {&out, 1}}};
  EXPECT_EQ(experts->forward(1, batch), 5U);
  EXPECT_EQ(output, std::vector<std::byte>(input.size(), std::byte{0x5a}));
  EXPECT_EQ(experts->forward(1, std::span(batch).first(1)), std::nullopt);
  EXPECT_EQ(output, std::vector<std::byte>(input.size())) << "no gate opens for zeros";
  EXPECT_EQ(experts->forward(1, {}), std::nullopt);
}

TEST_F(cuda_backend_test, a_lost_device_is_told_from_an_error_of_one_call) {
  const auto experts = make_cuda_backend(ctx_, open(), 0)->make_experts();
  experts->load(1, 2);
  const std::vector<std::byte> input(config_.hidden * 2);
  std::vector<std::byte> output(input.size());
  const auto* in = input.data();
  auto* out = output.data();
  const std::vector<expert_rows> batch{{2, {&in, 1}, {&out, 1}}};
  kernels::cuda::lose_emulated_device(true);
  for (int call = 0; call < 2; ++call)
    try {
      experts->forward(1, batch);
      ADD_FAILURE() << "a lost device has computed";
    } catch (const kernels::kernel_error& error) {
      EXPECT_TRUE(error.is_device_lost()) << error.what();
    }
  kernels::cuda::lose_emulated_device(false);
  EXPECT_EQ(experts->forward(1, batch), std::nullopt);
  try {
    make_cuda_backend(ctx_, open(), 7);
    FAIL() << "there is one device";
  } catch (const kernels::kernel_error& error) {
    EXPECT_FALSE(error.is_device_lost()) << error.what();
  }
}

TEST(block_copies, go_together_until_one_needs_what_another_writes) {
  using copies = std::vector<block_copy>;
  EXPECT_EQ(independent_copies(copies{}), 0U);
  EXPECT_EQ(independent_copies(copies{{0, 1}, {0, 2}, {3, 4}}), 3U) << "one block may be copied often";
  EXPECT_EQ(independent_copies(copies{{0, 1}, {1, 2}}), 1U) << "the second reads what the first writes";
  EXPECT_EQ(independent_copies(copies{{0, 1}, {2, 1}}), 1U) << "both write it";
  EXPECT_EQ(independent_copies(copies{{0, 1}, {2, 0}}), 1U) << "the second writes what the first reads";
}

} // namespace
} // namespace troupe::model
