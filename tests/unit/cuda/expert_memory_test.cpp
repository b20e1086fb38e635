// Experts in the host's memory, and a GPU, real or emulated, with room for some of them.
#include "kernels/model/cuda/cuda_experts.hpp"
#include "kernels/model/cuda/expert_slots.hpp"
#include "kernels/model/open_weights.hpp"
#include "tests/reference/random_model.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace troupe::model {
namespace {

namespace cuda = kernels::cuda;
using kernels::bfloat16;

/// One matrix of 8 equal numbers.
pinned_matrices matrix_of(float value) {
  matrix_image image{.shape = {cuda::weight_format::bf16, 1, 8},
                     .weights = {},
                     .group_scales = {},
                     .channel_scales = {},
                     .bias = {}};
  const std::vector<bfloat16> values(8, kernels::to_bfloat16(value));
  image.weights.resize(16);
  std::memcpy(image.weights.data(), values.data(), 16);
  return pinned_matrices({&image, 1});
}

float value_at(const std::byte* data) {
  bfloat16 value;
  std::memcpy(&value, data, sizeof value);
  return kernels::to_float(value);
}

class expert_slots_test : public testing::Test {
 protected:
  /// The content of an expert's slot, as seen by work of `compute_`.
  const std::byte* read(std::uint64_t id, const pinned_matrices& from) {
    const auto* data = slots_.take(id, from);
    if (data == nullptr)
      return nullptr;
    slots_.begin_use(compute_);
    auto& seen = seen_.emplace_back(16);
    compute_.copy_to_host(seen.data(), data, 16);
    slots_.end_use(compute_);
    return seen.data();
  }

  // Precedes the streams whose work uses it.
  pinned_matrices one_ = matrix_of(1.0F);
  pinned_matrices two_ = matrix_of(2.0F);
  pinned_matrices three_ = matrix_of(3.0F);
  cuda::stream compute_;
  std::deque<std::vector<std::byte>> seen_;
  expert_slots slots_{2, 16};
};

TEST_F(expert_slots_test, the_one_not_used_for_longest_makes_room) {
  read(1, one_);
  read(2, two_);
  read(1, one_);
  EXPECT_EQ(slots_.num_copies(), 2U);
  EXPECT_EQ(slots_.num_hits(), 1U);
  read(3, three_);
  EXPECT_TRUE(slots_.has(1));
  EXPECT_FALSE(slots_.has(2));
  EXPECT_TRUE(slots_.has(3));
}

TEST_F(expert_slots_test, within_a_wave_too_the_one_taken_first_is_the_least_recently_used) {
  slots_.take(1, one_);
  slots_.take(2, two_);
  slots_.take(1, one_);
  slots_.begin_use(compute_);
  slots_.end_use(compute_);
  read(3, three_);
  EXPECT_TRUE(slots_.has(1));
  EXPECT_FALSE(slots_.has(2));
  const auto* seen = read(2, two_);
  EXPECT_FALSE(slots_.has(1));
  EXPECT_TRUE(slots_.has(3));
  compute_.synchronize();
  EXPECT_EQ(value_at(seen), 2.0F);
}

TEST_F(expert_slots_test, experts_of_a_wave_keep_their_slots) {
  EXPECT_NE(slots_.take(1, one_), nullptr);
  EXPECT_NE(slots_.take(2, two_), nullptr);
  EXPECT_EQ(slots_.take(3, three_), nullptr);
  EXPECT_NE(slots_.take(1, one_), nullptr);
  slots_.begin_use(compute_);
  slots_.end_use(compute_);
  EXPECT_NE(slots_.take(3, three_), nullptr);
  compute_.synchronize();
}

TEST_F(expert_slots_test, what_is_copied_waits_for_what_used_the_slot) {
  // Nothing waits until all work is enqueued: each finds its own weights, even if a later one took the slot.
  std::vector<const std::byte*> seen;
  for (int round = 0; round < 3; ++round) {
    seen.push_back(read(1, one_));
    seen.push_back(read(2, two_));
    seen.push_back(read(3, three_));
  }
  const auto four = matrix_of(4.0F);
  slots_.take(4, four); // its copy is what waits
  cuda::stream other;
  slots_.begin_use(other);
  slots_.end_use(other);
  other.synchronize();
  compute_.synchronize();
  for (std::size_t i = 0; i < seen.size(); ++i)
    EXPECT_EQ(value_at(seen[i]), static_cast<float>(i % 3 + 1)) << i;
}

TEST_F(expert_slots_test, after_an_error_nothing_is_there) {
  slots_.take(1, one_);
  slots_.clear();
  EXPECT_FALSE(slots_.has(1));
  const auto* seen = read(1, one_);
  compute_.synchronize();
  EXPECT_EQ(value_at(seen), 1.0F);
}

struct remembered_experts {
  quantization quant;
  const char* model = "qwen2";
};

class expert_memory_test : public testing::TestWithParam<remembered_experts> {
 protected:
  std::unique_ptr<cuda_experts> experts_with(std::size_t slots,
                                             std::size_t piece_bytes = cuda_experts::default_piece_bytes) {
    const auto bytes = slots * ((all_->expert_bytes(layer) + 255) / 256 * 256);
    auto result = std::make_unique<cuda_experts>(0, tensors_, kernels::isa::portable, bytes, piece_bytes);
    load_all(*result);
    return result;
  }

  void load_all(cuda_experts& experts) const {
    for (std::size_t expert = 0; expert < num_experts_; ++expert)
      experts.load(layer, expert);
  }

  /// Outputs for some rows of each expert, in this order of experts.
  std::vector<std::byte> outputs_of(cuda_experts& experts, const std::vector<std::size_t>& order,
                                    unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<std::vector<std::byte>> inputs(num_experts_);
    std::vector<std::vector<std::byte>> outputs(num_experts_);
    for (std::size_t expert = 0; expert < num_experts_; ++expert) {
      const auto rows = expert % 3 == 2 ? 0 : expert + 1; // some have none
      inputs[expert].resize(rows * row_bytes_);
      for (std::size_t i = 0; i < rows * config_.hidden; ++i) {
        const auto value = kernels::to_bfloat16(normal(random));
        std::memcpy(inputs[expert].data() + i * sizeof value, &value, sizeof value);
      }
      outputs[expert].resize(inputs[expert].size());
    }
    std::deque<std::vector<const std::byte*>> in;
    std::deque<std::vector<std::byte*>> out;
    std::vector<expert_rows> batch;
    for (const auto expert : order) {
      auto& from = in.emplace_back();
      auto& to = out.emplace_back();
      for (std::size_t at = 0; at < inputs[expert].size(); at += row_bytes_) {
        from.push_back(inputs[expert].data() + at);
        to.push_back(outputs[expert].data() + at);
      }
      batch.push_back({expert, from, to});
    }
    EXPECT_EQ(experts.forward(layer, batch), std::nullopt);
    std::vector<std::byte> result;
    for (const auto& of : outputs)
      result.insert(result.end(), of.begin(), of.end());
    return result;
  }

  static constexpr std::size_t layer = 1;
  test::random_model model_{GetParam().model};
  model_config config_ = load_config(model_.folder());
  std::size_t row_bytes_ = config_.hidden * sizeof(bfloat16);
  std::size_t num_experts_ = config_.layers[layer].moe()->num_experts;
  std::shared_ptr<const tensor_source> tensors_ =
      open_tensors(model_.folder(), config_, {.dtype = dtype_choice::bfloat16, .quant = GetParam().quant});
  std::unique_ptr<cuda_experts> all_ = std::make_unique<cuda_experts>(0, tensors_, kernels::isa::portable);
};

TEST_P(expert_memory_test, gives_the_bits_of_experts_that_are_all_on_the_device) {
  load_all(*all_);
  std::vector<std::size_t> order(num_experts_);
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  for (const std::size_t slots : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
    SCOPED_TRACE(testing::Message() << slots << " slots");
    const auto some = experts_with(slots);
    ASSERT_NE(some->slots(), nullptr);
    EXPECT_EQ(some->slots()->count(), slots);
    std::mt19937 random(3);
    for (unsigned round = 0; round < 3; ++round) {
      EXPECT_EQ(outputs_of(*some, order, round), outputs_of(*all_, order, round)) << round;
      std::shuffle(order.begin(), order.end(), random);
    }
    EXPECT_GT(some->slots()->num_copies(), num_experts_ / 2);
  }
}

TEST_P(expert_memory_test, gives_the_bits_of_a_batch_in_one_piece_when_it_goes_in_several) {
  load_all(*all_);
  std::vector<std::size_t> order(num_experts_);
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  for (const std::size_t rows : {1, 2, 5})
    for (const std::size_t slots : {std::size_t{0}, std::size_t{3}}) {
      SCOPED_TRACE(testing::Message() << "pieces of " << rows << " rows, " << slots << " slots");
      const auto cut = experts_with(slots, rows * row_bytes_);
      std::mt19937 random(4);
      for (unsigned round = 0; round < 2; ++round) {
        EXPECT_EQ(outputs_of(*cut, order, round), outputs_of(*all_, order, round)) << round;
        std::shuffle(order.begin(), order.end(), random);
      }
    }
}

TEST_P(expert_memory_test, what_is_on_the_device_is_not_copied_again) {
  const auto some = experts_with(3);
  outputs_of(*some, {0, 1}, 1);
  const auto copies = some->slots()->num_copies();
  outputs_of(*some, {1, 0}, 2);
  EXPECT_EQ(some->slots()->num_copies(), copies);
  EXPECT_GE(some->slots()->num_hits(), 2U);
}

TEST_P(expert_memory_test, an_expert_that_was_loaded_again_is_copied_again) {
  const auto some = experts_with(2);
  const auto before = outputs_of(*some, {0}, 1);
  const auto copies = some->slots()->num_copies();
  EXPECT_TRUE(some->unload(layer, 0));
  some->load(layer, 0);
  EXPECT_EQ(outputs_of(*some, {0}, 1), before);
  EXPECT_EQ(some->slots()->num_copies(), copies + 1);
}

TEST_P(expert_memory_test, an_expert_that_is_not_here_is_named_and_nothing_is_copied) {
  const auto some = experts_with(1);
  some->unload(layer, 1);
  const std::vector<std::byte> input(row_bytes_);
  std::vector<std::byte> output(row_bytes_, std::byte{0x5a});
  const auto* in = input.data();
  auto* out = output.data();
  const std::vector<expert_rows> batch{{0, {&in, 1}, {&out, 1}}, {1, {&in, 1}, {&out, 1}}};
  EXPECT_EQ(some->forward(layer, batch), 1U);
  EXPECT_EQ(output, std::vector<std::byte>(row_bytes_, std::byte{0x5a}));
  EXPECT_EQ(some->slots()->num_copies(), 0U);
}

TEST_P(expert_memory_test, room_for_all_needs_no_slots_and_room_for_none_is_an_error) {
  const cuda_experts roomy(0, tensors_, kernels::isa::portable, std::size_t{1} << 40);
  EXPECT_EQ(roomy.slots(), nullptr);
  try {
    const cuda_experts narrow(0, tensors_, kernels::isa::portable, 10);
    FAIL() << "accepted";
  } catch (const model_error& error) {
    EXPECT_NE(std::string{error.what()}.find("10 bytes, holds no expert of"), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(formats, expert_memory_test,
                         testing::Values(remembered_experts{{}},
                                         remembered_experts{{.experts = expert_quant::int8}},
                                         remembered_experts{{.experts = expert_quant::int4_group32}},
                                         remembered_experts{{}, "gpt_moe_top2"}),
                         [](const auto& tested) {
                           auto name = std::string{tested.param.model} + "_" + tested.param.quant.name();
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == '-' || c == '+'; }, '_');
                           return std::string{name};
                         });

} // namespace
} // namespace troupe::model
