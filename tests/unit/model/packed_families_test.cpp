// Packed weight files of each kind of program: heads of latent attention, biases of experts, exact routers,
// fused matrices.
#include "kernels/model/open_weights.hpp"
#include "kernels/model/packed_source.hpp"
#include "kernels/model/packed_writer.hpp"
#include "kernels/model/required_tensors.hpp"
#include "tests/unit/model/batch_runner.hpp"
#include "tests/unit/model/packed_weights_fixture.hpp"
#include "tests/unit/model/safetensors_edit.hpp"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

namespace troupe::model {
namespace {

class packed_family : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<const cpu_weights> checkpoint_with(const quantization& quant, kernels::dtype type,
                                                     weight_coding coding = weight_coding::none) const {
    auto weights = std::make_shared<checkpoint>(checkpoint::open(model_.folder()));
    weights->match(config_);
    return std::make_shared<const checkpoint_source>(std::move(weights), config_, type, quant,
                                                     kernels::isa::portable, coding);
  }

  test::batch_logits logits_of(const std::shared_ptr<const cpu_weights>& source) {
    return test::batch_runner(ctx_, source).run({{0, {3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26}}});
  }

  std::filesystem::path file() const { return scratch_.path() / packed_file_name; }

  std::vector<packed_extent> extents() const {
    const auto bytes = read_file(file());
    const auto header = packed_header::decode(std::as_bytes(std::span{bytes}), "file");
    return decode_index(std::string_view{bytes}.substr(header.index_offset, header.index_bytes),
                        header.index_offset, "file")
        .extents;
  }

  test::random_model model_{GetParam()};
  model_config config_ = load_config(model_.folder());
  test::scratch_folder scratch_;
  kernels::thread_pool pool_{{.threads = 2}};
  kernels::context ctx_{pool_};
};

TEST_P(packed_family, gives_the_bits_of_its_checkpoint) {
  const auto check = [&](kernels::dtype type, const quantization& quant, weight_coding coding) {
    SCOPED_TRACE(std::string{kernels::name_of(type)} + " " + quant.name());
    const auto expected = logits_of(checkpoint_with(quant, type));
    EXPECT_NE(expected.front(), expected.back());
    write_packed(*checkpoint_with(quant, type, coding), file(), 2);
    for (const auto memory : {weight_memory::mapped, weight_memory::copied})
      EXPECT_EQ(logits_of(packed_source::open(file(), config_, quant.rows, memory)), expected);
  };
  check(kernels::dtype::f32, {}, weight_coding::none);
  check(kernels::dtype::bf16, {}, weight_coding::none);
  check(kernels::dtype::bf16, {}, weight_coding::exponents);
  for (const auto i : {1, 4, 6})
    check(kernels::dtype::bf16, all_quants[i], weight_coding::none);
}

TEST_P(packed_family, keeps_routers_and_vectors_as_they_are) {
  write_packed(*checkpoint_with(all_quants[6], kernels::dtype::bf16), file(), 2);
  std::size_t num_routers = 0;
  for (const auto& layer : config_.layers)
    if (const auto* route = layer.find<route_op>()) {
      const auto all = extents();
      const auto found = std::ranges::find(all, matrix_extent_name(route->matrix), &packed_extent::name);
      ASSERT_NE(found, all.end());
      EXPECT_EQ(found->format, route->matrix.storage == matrix_storage::exact ? "f32-panel" : "bf16-pair");
      ++num_routers;
    }
  EXPECT_NE(num_routers, 0U);
  for (const auto& extent : extents()) {
    if (extent.kind == extent_kind::vector)
      EXPECT_EQ(extent.format, "f32");
    if (extent.kind == extent_kind::mlp)
      EXPECT_EQ(extent.format, "int4-group32") << extent.name;
  }
}

// The file is there in part.
TEST_P(packed_family, is_continued_with_the_same_bytes) {
  const auto source = checkpoint_with({}, kernels::dtype::bf16);
  const auto whole = scratch_.path() / "whole";
  write_packed(*source, whole, 1);

  struct interrupted {};

  for (const double part : {0.3, 0.8}) {
    const auto stop =
        static_cast<std::uint64_t>(part * static_cast<double>(std::filesystem::file_size(whole)));
    EXPECT_THROW(write_packed(
                     *source, file(), 1,
                     [&](const pack_state& state) {
                       if (state.bytes >= stop)
                         throw interrupted{};
                     },
                     4096),
                 interrupted);
    write_packed(*source, file(), 1, {}, 4096);
    EXPECT_TRUE(read_file(file()) == read_file(whole)) << "continued at " << part;
    std::filesystem::remove(file());
  }
}

TEST_P(packed_family, lies_in_a_cache) {
  const open_options options{.dtype = dtype_choice::bfloat16, .cache = {.folder = scratch_.path()}};
  const auto expected = logits_of(checkpoint_with({}, kernels::dtype::bf16));
  for (int start = 1; start < 3; ++start)
    EXPECT_EQ(logits_of(open_weights(model_.folder(), config_, options)), expected) << "start " << start;
}

using packed_latent_family = packed_family;

// A product reads all heads in one format.
TEST_P(packed_latent_family, has_one_format_for_heads_of_which_one_cannot_be_coded) {
  test::safetensors_edit checkpoint_file(model_.folder() / "model.safetensors");
  auto heads = checkpoint_file.take("model.layers.0.self_attn.kv_b_proj.weight");
  const auto& first = config_.layers.front().find<attend_latent_op>()->key_heads.front();
  const auto num_values = first.outputs() * first.inputs();
  ASSERT_EQ(heads.dtype, "BF16");
  for (std::size_t i = 0; i < num_values; ++i) { // more exponents than a code has
    const auto value = static_cast<std::uint16_t>((64 + i % 64) << 7);
    std::memcpy(heads.bytes.data() + 2 * i, &value, sizeof value);
  }
  checkpoint_file.tensors.push_back(heads);
  checkpoint_file.write();
  const auto expected = logits_of(checkpoint_with({}, kernels::dtype::bf16));
  const auto coded = checkpoint_with({}, kernels::dtype::bf16, weight_coding::exponents);
  EXPECT_EQ(logits_of(coded), expected);
  write_packed(*coded, file(), 2);
  EXPECT_EQ(logits_of(packed_source::open(file(), config_, kernels::row_quant::none)), expected);
}

INSTANTIATE_TEST_SUITE_P(model, packed_latent_family, testing::Values("moonlight"));

INSTANTIATE_TEST_SUITE_P(model, packed_family,
                         testing::Values("deepseek_v3", "minimax_m2", "hunyuan_v1_moe_lists",
                                         "granitemoeshared", "phimoe", "gpt_oss", "llama4_maverick"),
                         [](const auto& tested) { return std::string{tested.param}; });

} // namespace
} // namespace troupe::model
