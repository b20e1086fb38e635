// Packed weight files: they contain what a checkpoint gives.
#include "kernels/model/cpu_runner.hpp"
#include "kernels/model/expert_store.hpp"
#include "kernels/model/open_weights.hpp"
#include "kernels/model/packed_source.hpp"
#include "kernels/model/required_tensors.hpp"
#include "tests/unit/model/batch_runner.hpp"
#include "tests/unit/model/packed_weights_fixture.hpp"

#include <algorithm>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace troupe::model {
namespace {

TEST_F(packed_weights, give_the_bits_of_weights_that_are_packed_while_loading) {
  kernels::thread_pool pool({.threads = 2});
  kernels::context ctx(pool);
  const std::vector<std::uint32_t> prompt{3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26};
  for (const auto type : {kernels::dtype::bf16, kernels::dtype::f32})
    for (const auto& quant : all_quants) {
      SCOPED_TRACE(numerics_class(type, quant));
      const auto loaded = checkpoint_with(quant, type);
      write_packed(*loaded, file(), 3);
      const auto packed = packed_source::open(file(), config_, quant.rows);
      EXPECT_EQ(packed->fingerprint(), loaded->fingerprint());
      EXPECT_EQ(numerics_class(packed->type(), packed->quant()), numerics_class(type, quant));
      const auto expected = test::batch_runner(ctx, loaded).run({{0, prompt}});
      EXPECT_EQ(test::batch_runner(ctx, packed).run({{0, prompt}}), expected);
      const auto copied = packed_source::open(file(), config_, quant.rows, weight_memory::copied);
      EXPECT_EQ(test::batch_runner(ctx, copied).run({{0, prompt}}), expected);
      EXPECT_NE(expected.front(), expected.back());
    }
}

TEST_F(packed_weights, with_coded_exponents_are_the_same_weights) {
  kernels::thread_pool pool({.threads = 2});
  kernels::context ctx(pool);
  const std::vector<std::uint32_t> prompt{3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26};
  for (const auto& quant : all_quants) {
    SCOPED_TRACE(quant.name());
    const auto expected = test::batch_runner(ctx, checkpoint_with(quant)).run({{0, prompt}});
    const auto coded = checkpoint_with(quant, kernels::dtype::bf16, weight_coding::exponents);
    EXPECT_EQ(test::batch_runner(ctx, coded).run({{0, prompt}}), expected);
    write_packed(*coded, file(), 2);
    for (const auto memory : {weight_memory::mapped, weight_memory::copied}) {
      const auto packed = packed_source::open(file(), config_, quant.rows, memory);
      EXPECT_EQ(test::batch_runner(ctx, packed).run({{0, prompt}}), expected);
    }
    for (const auto& extent : extents()) {
      const bool is_expert = extent.name.find(".experts.") != std::string::npos;
      const bool plain = is_expert ? quant.experts == expert_quant::none : quant.dense == dense_quant::none;
      const bool router = extent.name.ends_with("mlp.gate.weight");
      if (extent.kind == extent_kind::mlp || (extent.kind == extent_kind::matrix && !router))
        EXPECT_EQ(extent.format == "bf16-coded", plain) << extent.name;
      else
        EXPECT_NE(extent.format, "bf16-coded") << extent.name;
    }
  }
}

class packed_ungated_weights : public packed_weights {
 protected:
  static void SetUpTestSuite() { model_ = std::make_unique<test::random_model>("gpt_moe"); }
};

TEST_F(packed_ungated_weights, and_learned_positions_are_the_same_weights) {
  kernels::thread_pool pool({.threads = 2});
  kernels::context ctx(pool);
  const std::vector<std::uint32_t> prompt{3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26};
  for (const auto& quant : all_quants) {
    SCOPED_TRACE(quant.name());
    const auto loaded = checkpoint_with(quant, kernels::dtype::bf16, weight_coding::exponents);
    write_packed(*loaded, file(), 2);
    for (const auto memory : {weight_memory::mapped, weight_memory::copied}) {
      const auto packed = packed_source::open(file(), config_, quant.rows, memory);
      EXPECT_EQ(test::batch_runner(ctx, packed).run({{0, prompt}}),
                test::batch_runner(ctx, loaded).run({{0, prompt}}));
    }
    for (const auto& extent : extents())
      EXPECT_EQ(extent.kind == extent_kind::ungated_mlp,
                extent.name.find(".experts.") != std::string::npos || extent.name.ends_with(".mlp."))
          << extent.name;
  }
}

TEST_F(packed_ungated_weights, are_refused_as_gated_ones) {
  write_packed(*checkpoint_with({}), file(), 1);
  const auto whole = take_apart();
  auto index = whole.bytes.substr(whole.header.index_offset, whole.header.index_bytes);
  const std::string kind = "\"kind\":\"ungated-mlp\"";
  const auto at = index.find(kind);
  ASSERT_NE(at, std::string::npos);
  EXPECT_THAT(error_with_index(whole, index.replace(at, kind.size(), "\"kind\":\"mlp\"")),
              testing::HasSubstr("do not agree with its kind, format and shape"));
}

// The sizes with which an expert worker plans its memory: as many coded experts fit as there is room for.

TEST_F(packed_weights, tell_how_large_their_experts_are) {
  for (const auto coding : {weight_coding::none, weight_coding::exponents}) {
    const auto source = checkpoint_with({}, kernels::dtype::bf16, coding);
    write_packed(*source, file(), 1);
    kernels::thread_pool pool({.threads = 1});
    kernels::context ctx(pool);
    expert_store store(ctx, packed_source::open(file(), config_));
    store.load(1, 3);
    EXPECT_EQ(store.expert_bytes(1), store.num_bytes());
    EXPECT_EQ(store.expert_bytes(0), 0U);
    EXPECT_GE(source->largest_expert(1), store.num_bytes());
  }
}

TEST_F(packed_weights, computed_in_float32_have_no_exponents_to_code) {
  write_packed(*checkpoint_with({}, kernels::dtype::f32, weight_coding::exponents), file(), 1);
  for (const auto& extent : extents())
    EXPECT_NE(extent.format, "bf16-coded") << extent.name;
}

// Untrained weights: an expert's second matrix has all exponents.

TEST_F(packed_weights, that_cannot_be_coded_stay_as_they_are) {
  test::scratch_folder folder;
  std::filesystem::copy(model_->folder(), folder.path());
  const std::string name = expert_tensors(config_, 1, 5).down.name;
  std::size_t replaced = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const auto weights = checkpoint::open(folder.path());
    const auto& tensor = weights.at(name);
    auto bytes = read_file(entry.path());
    const auto place = bytes.find(std::string{reinterpret_cast<const char*>(tensor.data), tensor.num_bytes});
    if (place == std::string::npos)
      continue;
    std::mt19937 random(1);
    for (std::size_t i = 0; i < tensor.num_bytes; ++i)
      bytes[place + i] = static_cast<char>(random() & 0x7e); // no NaN
    write_file(entry.path().string() + ".new", bytes);
    std::filesystem::rename(entry.path().string() + ".new", entry.path()); // it is mapped
    ++replaced;
  }
  ASSERT_EQ(replaced, 1U);
  const auto source = std::make_shared<const checkpoint_source>(
      std::make_shared<const checkpoint>(checkpoint::open(folder.path())), config_, kernels::dtype::bf16,
      quantization{}, kernels::isa::portable, weight_coding::exponents);
  write_packed(*source, file(), 1);
  const auto packed = packed_source::open(file(), config_);
  for (const std::size_t expert : {4UL, 5UL}) {
    const auto format = expert == 5 ? kernels::packed_format::bf16_pair : kernels::packed_format::bf16_coded;
    for (const auto& weights : {source->expert(1, expert), packed->expert(1, expert)}) {
      EXPECT_EQ(weights.gate_up.format(), format);
      EXPECT_EQ(weights.down.format(), format);
    }
  }
}

TEST_F(packed_weights, a_cache_keeps_coded_weights_apart_from_others) {
  for (int times = 0; times < 2; ++times)
    for (const auto coding : {weight_coding::none, weight_coding::exponents}) {
      const auto source = open_weights(
          model_->folder(), config_,
          {.dtype = dtype_choice::bfloat16, .coding = coding, .cache = {.folder = scratch_.path()}});
      EXPECT_EQ(source->expert(1, 0).down.format(), coding == weight_coding::none
                                                        ? kernels::packed_format::bf16_pair
                                                        : kernels::packed_format::bf16_coded);
    }
  const auto files = std::filesystem::directory_iterator(scratch_.path());
  EXPECT_EQ(std::count_if(begin(files), end(files),
                          [](const auto& entry) { return entry.path().extension() == ".troupe"; }),
            2);
}

TEST_F(packed_weights, quantized_models_give_a_sequence_the_same_bits_in_any_company) {
  kernels::thread_pool pool({.threads = 2});
  kernels::thread_pool one({.threads = 1});
  const std::vector<std::uint32_t> prompt{3, 14, 15, 92, 65, 35, 89};
  for (const auto& quant : all_quants) {
    SCOPED_TRACE(quant.name());
    const auto source = checkpoint_with(quant);
    kernels::context reference(one, kernels::isa::portable);
    const auto alone = test::batch_runner(reference, source).run({{0, prompt}});
    kernels::context ctx(pool);
    std::vector<test::batch_part> parts{{0, prompt}};
    for (std::uint32_t other = 1; other < 6; ++other)
      parts.push_back({other, {other, 7, 9 + other, 50, 51, 52, 60 + other}});
    const auto together = test::batch_runner(ctx, source, 2).run(parts);
    for (std::size_t r = 0; r < prompt.size(); ++r)
      EXPECT_EQ(together[r], alone[r]);
    auto chunked = test::batch_runner(ctx, source);
    for (std::size_t r = 0; r < prompt.size(); ++r)
      EXPECT_EQ(chunked.run({{0, {prompt[r]}}}).front(), alone[r]);
  }
}

TEST_F(packed_weights, are_the_same_bytes_whatever_the_threads) {
  const auto source = checkpoint_with(all_quants[3]);
  write_packed(*source, scratch_.path() / "one", 1);
  write_packed(*source, scratch_.path() / "four", 4);
  EXPECT_EQ(read_file(scratch_.path() / "one"), read_file(scratch_.path() / "four"));
}

TEST_F(packed_weights, are_mapped_in_one_piece_that_asks_for_huge_pages) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage"))
    GTEST_SKIP() << "this kernel has no transparent huge pages";
  write_packed(*checkpoint_with({}), file(), 1);
  const auto source = packed_source::open(file(), config_);
  read_all(source);
  const auto flags = mapping_flags(file());
  ASSERT_EQ(flags.size(), 1U) << "a huge page does not reach over the end of a mapping";
  EXPECT_NE(flags.front().find(" hg "), std::string::npos) << flags.front();
}

TEST_F(packed_weights, an_expert_is_one_extent_of_its_own) {
  const auto source = checkpoint_with(all_quants[1]);
  write_packed(*source, file(), 1);
  const auto packed = packed_source::open(file(), config_);
  const auto bytes = packed->expert_bytes(1, 5);
  const auto expert = source->expert(1, 5);
  ASSERT_EQ(bytes.size(), expert.gate_up.bytes().size() + expert.down.bytes().size());
  EXPECT_EQ(std::memcmp(bytes.data(), expert.gate_up.bytes().data(), expert.gate_up.bytes().size()), 0);
  EXPECT_EQ(error_of([&] { packed->expert_bytes(0, 0); }),
            file().string() + ": extent 'layers.0.experts.0' is missing");
}

// A running computation continues with what it has, and the same expert may be requested meanwhile.

TEST_F(packed_weights, a_copied_expert_stays_whole_when_it_is_forgotten) {
  const auto source = checkpoint_with(all_quants[1]);
  write_packed(*source, file(), 1);
  const auto packed = packed_source::open(file(), config_, {}, weight_memory::copied);
  const auto expected = source->expert(1, 5);
  const auto same = [&](const kernels::expert_weights& expert) {
    return std::ranges::equal(expert.gate_up.bytes(), expected.gate_up.bytes())
           && std::ranges::equal(expert.down.bytes(), expected.down.bytes());
  };
  const auto used = packed->expert(1, 5);
  EXPECT_NE(static_cast<const void*>(used.gate_up.bytes().data()),
            static_cast<const void*>(packed->expert_bytes(1, 5).data()));
  packed->forget(1, 5);
  EXPECT_TRUE(same(used));
  const auto again = packed->expert(1, 5);
  EXPECT_TRUE(same(again));
  EXPECT_NE(again.gate_up.bytes().data(), used.gate_up.bytes().data());
}

TEST_F(packed_weights, quantized_ones_are_smaller) {
  const auto size_with = [&](const quantization& quant) {
    write_packed(*checkpoint_with(quant), file(), 1);
    return packed_source::open(file(), config_)->expert_bytes(1, 0).size();
  };
  const auto bf16 = size_with(all_quants[0]);
  EXPECT_LT(size_with(all_quants[1]), bf16 * 6 / 10);
  EXPECT_LT(size_with(all_quants[3]), bf16 * 4 / 10);
}

TEST_F(packed_weights, a_packed_folder_must_hold_what_is_asked_for) {
  write_packed(*checkpoint_with(all_quants[1]), file(), 1);
  const auto open = [&](dtype_choice dtype, const quantization& quant) {
    return open_weights(scratch_.path(), config_, {.dtype = dtype, .quant = quant});
  };
  EXPECT_EQ(open(dtype_choice::automatic, {})->quant(), all_quants[1]);
  EXPECT_EQ(open(dtype_choice::bfloat16, all_quants[2])->quant(), all_quants[2]);
  EXPECT_EQ(error_of([&] { open(dtype_choice::float32, {}); }),
            file().string() + ": packed for bf16 activations, asked for f32");
  EXPECT_EQ(error_of([&] { open(dtype_choice::automatic, all_quants[3]); }),
            file().string() + ": packed as int8, asked for int4-group32");
  const auto exactly = [&](bool experts_as_packed, bool dense_as_packed) {
    return open_weights(scratch_.path(), config_,
                        {.experts_as_packed = experts_as_packed, .dense_as_packed = dense_as_packed});
  };
  EXPECT_EQ(exactly(true, false)->quant(), all_quants[1]);
  EXPECT_EQ(error_of([&] { exactly(false, true); }), file().string() + ": packed as int8, asked for none");
}

} // namespace
} // namespace troupe::model
