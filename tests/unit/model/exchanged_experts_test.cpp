// Experts sent as bytes from one store to another compute the same, in every format; unsuitable ones are
// refused.
#include "kernels/model/expert_store.hpp"
#include "kernels/model/numerics.hpp"
#include "kernels/model/packed_expert.hpp"
#include "kernels/model/peer_weights.hpp"
#include "tests/reference/random_model.hpp"

#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>

namespace troupe::model {
namespace {

struct exchanged_format {
  const char* variant; // layer 1 is routed
  const char* name;
  kernels::dtype type;
  quantization quant;
  weight_coding coding;
};

void PrintTo(const exchanged_format& format, std::ostream* out) {
  *out << format.variant << " " << format.name;
}

class exchanged_experts : public testing::TestWithParam<exchanged_format> {
 protected:
  std::shared_ptr<const cpu_weights> files() const {
    auto weights = std::make_shared<checkpoint>(checkpoint::open(model_.folder()));
    weights->match(config_);
    return std::make_shared<const checkpoint_source>(std::move(weights), config_, GetParam().type,
                                                     GetParam().quant, kernels::isa::portable,
                                                     GetParam().coding);
  }

  std::shared_ptr<const cpu_weights> no_files(const model_config& config) const {
    return std::make_shared<const peer_weights>(config, GetParam().type, GetParam().quant, "fingerprint",
                                                "/nowhere");
  }

  /// In pieces with arbitrary ends.
  static std::unique_ptr<arriving_expert> sent(const packed_expert& from, const expert_store& to) {
    auto arriving = to.expect(1, from.layout());
    EXPECT_EQ(arriving->num_bytes(), from.num_bytes());
    std::vector<std::byte> piece(1001);
    for (std::size_t at = 0; at < from.num_bytes(); at += piece.size()) {
      const auto part = std::span{piece}.first(std::min(piece.size(), from.num_bytes() - at));
      from.read(at, part);
      arriving->write(at, part);
    }
    return arriving;
  }

  /// Of one row.
  std::vector<std::byte> output_of(expert_store& store, std::size_t expert) {
    const auto row_bytes = kernels::bytes_of(store.type(), config_.hidden);
    std::vector<std::byte> out(row_bytes);
    kernels::tensor in(store.type(), 1, config_.hidden);
    for (std::size_t i = 0; i < config_.hidden; ++i)
      if (store.type() == kernels::dtype::f32)
        in.view().row_as<float>(0)[i] = static_cast<float>(i % 7) - 3;
      else
        in.view().row_as<kernels::bfloat16>(0)[i] = kernels::to_bfloat16(static_cast<float>(i % 7) - 3);
    const std::byte* inputs[] = {in.view().row(0)};
    std::byte* outputs[] = {out.data()};
    const expert_rows rows[] = {{expert, inputs, outputs}};
    EXPECT_FALSE(store.forward(1, rows));
    return out;
  }

  test::random_model model_{GetParam().variant};
  model_config config_ = load_config(model_.folder());
  kernels::thread_pool pool_{{.threads = 1}};
  kernels::context ctx_{pool_};
};

TEST_P(exchanged_experts, compute_the_same_and_are_the_same_bytes) {
  expert_store from(ctx_, files());
  expert_store to(ctx_, no_files(config_));
  from.load(1, 3);
  const auto packed = from.packed(1, 3);
  ASSERT_TRUE(packed);
  auto arrived = sent(*packed, to);
  EXPECT_EQ(arrived->checksum(), packed->checksum());
  to.take(1, 3, std::move(arrived));
  EXPECT_TRUE(to.has(1, 3));
  EXPECT_EQ(to.num_bytes(), from.num_bytes());
  EXPECT_EQ(from.num_bytes(), packed->num_bytes());
  EXPECT_EQ(to.packed(1, 3)->layout(), packed->layout());
  EXPECT_EQ(to.packed(1, 3)->checksum(), packed->checksum()) << "and can be sent on";
  EXPECT_EQ(output_of(to, 3), output_of(from, 3));
}

TEST_P(exchanged_experts, can_be_sent_after_they_were_unloaded) {
  expert_store from(ctx_, files());
  expert_store to(ctx_, no_files(config_));
  from.load(1, 3);
  const auto packed = from.packed(1, 3);
  const auto checksum = packed->checksum();
  ASSERT_TRUE(from.unload(1, 3));
  EXPECT_EQ(from.packed(1, 3), nullptr);
  EXPECT_EQ(sent(*packed, to)->checksum(), checksum);
}

TEST_P(exchanged_experts, are_refused_where_the_config_or_the_format_is_another) {
  expert_store from(ctx_, files());
  from.load(1, 3);
  const auto layout = from.packed(1, 3)->layout();
  auto other = config_;
  other.canonical_json += " ";
  expert_store to(ctx_, no_files(other));
  EXPECT_THROW(to.expect(1, layout), model_error);
  expert_store same(ctx_, no_files(config_));
  EXPECT_THROW(same.expect(1, layout + "x"), model_error);
  for (std::size_t layer = 0; layer < config_.num_layers(); ++layer)
    if (config_.layers[layer].moe() == nullptr)
      EXPECT_THROW(same.expect(layer, layout), model_error) << "a dense layer";
  EXPECT_THROW(same.expect(99, layout), model_error);
}

TEST_P(exchanged_experts, a_store_without_files_says_so) {
  expert_store to(ctx_, no_files(config_));
  try {
    to.load(1, 3);
    FAIL() << "it has loaded what it does not have";
  } catch (const model_error& error) {
    EXPECT_STREQ(error.what(), "layer 1, expert 3: /nowhere has no weights");
  }
}

constexpr const char* usual = "qwen2_dense_layers";
constexpr const char* biased = "gpt_oss";

constexpr exchanged_format formats[] = {
    {usual, "f32", kernels::dtype::f32, {}, weight_coding::none},
    {usual, "bf16", kernels::dtype::bf16, {}, weight_coding::none},
    {usual, "bf16_coded", kernels::dtype::bf16, {}, weight_coding::exponents},
    {usual, "int8", kernels::dtype::bf16, {expert_quant::int8}, weight_coding::none},
    {usual, "int4", kernels::dtype::f32, {expert_quant::int4_group32}, weight_coding::none},
    {biased, "f32", kernels::dtype::f32, {}, weight_coding::none},
    {biased, "bf16", kernels::dtype::bf16, {}, weight_coding::none},
    {biased, "bf16_coded", kernels::dtype::bf16, {}, weight_coding::exponents},
    {biased, "int8", kernels::dtype::bf16, {expert_quant::int8}, weight_coding::none},
    {"gpt_moe", "bf16_coded", kernels::dtype::bf16, {}, weight_coding::exponents},
    {"llama4", "bf16", kernels::dtype::bf16, {}, weight_coding::none},
    {"granitemoeshared", "int4", kernels::dtype::bf16, {expert_quant::int4_group32}, weight_coding::none},
};

INSTANTIATE_TEST_SUITE_P(formats, exchanged_experts, testing::ValuesIn(formats), [](const auto& tested) {
  return std::string{tested.param.variant} + "_" + tested.param.name;
});

TEST(numerics_classes, are_taken_apart_into_what_they_were_made_of) {
  const quantization quant{expert_quant::int4_group64, dense_quant::int8, kernels::row_quant::int8};
  const auto parts = parts_of_class(numerics_class(kernels::dtype::bf16, quant, kernels::dtype::int8));
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->type, kernels::dtype::bf16);
  EXPECT_EQ(parts->quant, quant);
  EXPECT_EQ(parts->kv_type, kernels::dtype::int8);
  EXPECT_FALSE(parts_of_class("cpu-x86/bf16/none/r0"));
  EXPECT_FALSE(parts_of_class(""));
}

TEST(model_folders, have_weights_or_have_not) {
  const test::random_model model{"qwen2_dense_layers"};
  EXPECT_TRUE(has_weights(model.folder()));
  EXPECT_FALSE(has_weights("/nowhere"));
}

} // namespace
} // namespace troupe::model
