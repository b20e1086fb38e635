// Pieces of decode steps as graphs, on a GPU, real or emulated.
#include "kernels/model/cuda/step_graphs.hpp"

#include "kernels/cuda/pick_logits.hpp"
#include "kernels/model/cuda/cuda_attention.hpp"
#include "kernels/model/cuda/cuda_backend.hpp"
#include "kernels/model/open_weights.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/unit/model/batch_runner.hpp"

#include <algorithm>
#include <cstddef>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

namespace troupe::model {
namespace {

namespace cuda = kernels::cuda;

class step_graphs_test : public testing::Test {
 protected:
  /// Adds 1 to a byte on the device, by a copy from one that is 1 larger.
  step_graphs::piece piece(std::size_t layer) {
    return [this, layer](bool is_recorded) -> step_graphs::outcome {
      ++(is_recorded ? num_recorded_ : num_direct_);
      on_.copy_on_device(memory_.data(), memory_.data() + 1, 1);
      return {pause::experts, {.layer = layer}};
    };
  }

  int value() {
    unsigned char result = 0;
    on_.copy_to_host(&result, memory_.data(), 1);
    on_.synchronize();
    return result;
  }

  void set(unsigned char next) { on_.fill(memory_.data() + 1, next, 1); }

  cuda::stream on_;
  cuda::device_memory memory_{2};
  step_graphs graphs_{3};
  int num_recorded_ = 0;
  int num_direct_ = 0;
};

TEST_F(step_graphs_test, a_piece_is_done_directly_then_recorded_and_then_replayed) {
  const step_shape shape{.pass = 1, .rows = 4, .addresses = {}};
  for (unsigned char round = 1; round <= 4; ++round) {
    set(round);
    const auto result = graphs_.run(on_, shape, piece(7));
    EXPECT_EQ(value(), round);
    EXPECT_EQ(result.stopped, pause::experts);
    EXPECT_EQ(result.progress.layer, 7U);
  }
  EXPECT_EQ(num_direct_, 1);
  EXPECT_EQ(num_recorded_, 1);
  EXPECT_EQ(graphs_.num_graphs(), 1U);
  EXPECT_EQ(graphs_.num_replays(), 2U);
}

TEST_F(step_graphs_test, each_shape_has_a_graph_of_its_own) {
  const std::byte somewhere{};
  const step_shape first{.pass = 1, .rows = 4, .addresses = {}};
  auto more_rows = first;
  more_rows.rows = 5;
  auto grown = first;
  grown.addresses = {&somewhere};
  for (int round = 0; round < 3; ++round)
    for (const auto& shape : std::vector{first, more_rows, grown})
      graphs_.run(on_, shape, piece(shape.rows));
  on_.synchronize();
  EXPECT_EQ(graphs_.num_graphs(), 3U);
  EXPECT_EQ(num_direct_, 3);
  EXPECT_EQ(num_recorded_, 3);
  EXPECT_EQ(graphs_.run(on_, more_rows, piece(0)).progress.layer, 5U);
  on_.synchronize();
}

TEST_F(step_graphs_test, of_too_many_graphs_the_least_recently_used_one_is_forgotten) {
  const auto run = [&](std::size_t rows) {
    graphs_.run(on_, {.pass = 1, .rows = rows, .addresses = {}}, piece(0));
    on_.synchronize();
  };
  for (std::size_t rows = 1; rows <= 3; ++rows)
    for (int round = 0; round < 2; ++round)
      run(rows);
  run(1); // 2 is the one not used for longest
  run(4);
  run(4);
  EXPECT_EQ(graphs_.num_graphs(), 3U);
  EXPECT_EQ(num_recorded_, 4);
  EXPECT_EQ(num_direct_, 4);
  const auto replays = graphs_.num_replays();
  run(1);
  run(3);
  run(4);
  EXPECT_EQ(graphs_.num_replays(), replays + 3);
  EXPECT_EQ(num_direct_, 4) << "these were kept";
  run(2);
  EXPECT_EQ(num_direct_, 5);
  EXPECT_EQ(graphs_.num_graphs(), 2U) << "2 made room for itself, and is recorded the next time";
}

TEST_F(step_graphs_test, an_exception_drops_all_graphs) {
  const step_shape shape{.pass = 1, .rows = 1, .addresses = {}};
  const step_shape other{.pass = 1, .rows = 2, .addresses = {}};
  for (int round = 0; round < 2; ++round)
    graphs_.run(on_, shape, piece(0));
  EXPECT_EQ(graphs_.num_graphs(), 1U);
  EXPECT_THROW(graphs_.run(on_, other,
                           [](bool) -> step_graphs::outcome {
                             throw cuda::device_error("allocate 1 bytes", "there are none");
                           }),
               cuda::device_error);
  EXPECT_EQ(graphs_.num_graphs(), 0U);
  set(9);
  graphs_.run(on_, shape, piece(0));
  EXPECT_EQ(value(), 9);
  EXPECT_EQ(num_direct_, 2) << "computed directly again, so that memory grows to its size";
  EXPECT_EQ(graphs_.num_replays(), 0U);
}

TEST_F(step_graphs_test, an_exception_around_a_piece_drops_all_graphs_and_none_drops_nothing) {
  for (int round = 0; round < 2; ++round)
    graphs_.run(on_, {.pass = 1, .addresses = {}}, piece(0));
  on_.synchronize();
  { const step_graphs::forgotten_on_error guard(graphs_); }
  EXPECT_EQ(graphs_.num_graphs(), 1U);
  try {
    const step_graphs::forgotten_on_error guard(graphs_);
    throw cuda::device_error("wait for a stream", "a test");
  } catch (const cuda::device_error&) {
    EXPECT_EQ(graphs_.num_graphs(), 0U);
  }
}

TEST_F(step_graphs_test, what_could_not_be_recorded_once_is_recorded_the_next_time) {
  const step_shape shape{.pass = 1, .addresses = {}};
  for (unsigned char round = 1; round <= 5; ++round) {
    set(round);
    graphs_.run(on_, shape, [&](bool is_recorded) {
      auto inner = piece(round)(is_recorded);
      if (is_recorded && num_recorded_ < 3)
        throw cuda::device_error("upload a graph", "there is no memory", cuda::device_fault::memory);
      return inner;
    });
    EXPECT_EQ(value(), round);
  }
  EXPECT_EQ(num_direct_, 3) << "the first time, and where recording failed";
  EXPECT_EQ(num_recorded_, 3);
  EXPECT_EQ(graphs_.num_graphs(), 1U);
  EXPECT_EQ(graphs_.num_replays(), 1U);
  EXPECT_EQ(graphs_.num_refused(), 0U);
}

TEST_F(step_graphs_test, what_cannot_be_recorded_is_done_directly_each_time) {
  const step_shape shape{.pass = 1, .addresses = {}};
  const cuda::device_memory logit(sizeof(float));
  const cuda::device_memory place(sizeof(cuda::logit_place));
  on_.fill(place.data(), 0, place.size());
  for (unsigned char round = 1; round <= 6; ++round) {
    set(round);
    const float wanted = round;
    on_.copy_to_device(logit.data(), &wanted, sizeof wanted);
    float picked = 0.0F;
    const auto result = graphs_.run(on_, shape, [&](bool is_recorded) {
      auto inner = piece(round)(is_recorded);
      const cuda::device_memory more(sizeof(float)); // refused while a graph is recorded
      // The first launch after the refusal must not report that error.
      cuda::pick_logits(on_, {.logits = logit.as<float>(),
                              .rows = 1,
                              .vocab = 1,
                              .places = place.as<cuda::logit_place>(),
                              .count = 1,
                              .output = more.as<float>()});
      on_.copy_to_host(&picked, more.data(), sizeof picked);
      on_.synchronize();
      return inner;
    });
    EXPECT_EQ(result.progress.layer, round);
    EXPECT_EQ(value(), round);
    EXPECT_EQ(picked, wanted);
  }
  EXPECT_EQ(graphs_.num_refused(), 1U);
  EXPECT_EQ(graphs_.num_graphs(), 0U);
  EXPECT_EQ(num_recorded_, 3) << "it is tried so often";
  EXPECT_EQ(num_direct_, 6);
}

/// Decode steps of some sequences, one joining late and the others continuing without it, over block
/// boundaries.
test::batch_logits decode(test::batch_runner& runner) {
  test::batch_logits all;
  const auto pass = runner.make_pass(); // one, as engines use them again
  const auto add = [&](const std::vector<test::batch_part>& parts) {
    std::size_t rows = 0;
    for (const auto& part : parts)
      rows += part.tokens.size();
    for (auto why = runner.begin(parts, *pass); why == pause::experts;)
      why = runner.step(*pass);
    for (auto& row : runner.logits(*pass, rows))
      all.push_back(std::move(row));
  };
  add({{0, {1, 2, 3, 4, 5, 6, 7, 8, 9}}, {1, {10, 11}}});
  for (std::uint32_t step = 0; step < 10; ++step)
    add({{0, {20 + step}}, {1, {40 + step}}});
  add({{2, {60, 61, 62}}});
  for (std::uint32_t step = 0; step < 4; ++step)
    add({{0, {70 + step}}, {2, {80 + step}}, {1, {90 + step}}});
  for (std::uint32_t step = 0; step < 4; ++step)
    add({{2, {100 + step}}});
  return all;
}

class graphs_of_a_model : public testing::TestWithParam<const char*> {
 protected:
  test::random_model model_{GetParam()};
  kernels::thread_pool pool_{{.threads = 1}};
  kernels::context ctx_{pool_};
  std::shared_ptr<const tensor_source> tensors_ =
      open_tensors(model_.folder(), load_config(model_.folder()), {.dtype = dtype_choice::bfloat16});
  test::batch_runner with_{make_cuda_backend(ctx_, tensors_, 0, {.graphs = true})};
  test::batch_runner without_{make_cuda_backend(ctx_, tensors_, 0, {.graphs = false})};
  const step_graphs& graphs_ = dynamic_cast<const cuda_attention&>(with_.attention()).graphs();
};

TEST_P(graphs_of_a_model, give_the_bits_of_kernels_one_by_one) {
  EXPECT_EQ(decode(with_), decode(without_));
  EXPECT_GT(graphs_.num_replays(), 10U);
  EXPECT_EQ(graphs_.num_refused(), 0U);
  EXPECT_EQ(dynamic_cast<const cuda_attention&>(without_.attention()).graphs().num_graphs(), 0U);
}

TEST_P(graphs_of_a_model, are_one_set_for_all_numbers_of_sequences_of_a_bucket) {
  const auto pass_with = with_.make_pass();
  const auto pass_without = without_.make_pass();
  // One token of each of N sequences, on both.
  const auto step = [&](std::uint32_t sequences, std::uint32_t token) {
    std::vector<test::batch_part> parts;
    for (std::uint32_t s = 0; s < sequences; ++s)
      parts.push_back({s, {token + s}});
    auto why = with_.begin(parts, *pass_with);
    without_.begin(parts, *pass_without);
    for (; why == pause::experts; why = with_.step(*pass_with), without_.step(*pass_without)) {
      const auto routed = pass_with->routed();
      const auto same = pass_without->routed();
      ASSERT_TRUE(std::ranges::equal(routed.offsets, same.offsets)) << "padding asks no expert";
      ASSERT_TRUE(std::ranges::equal(routed.entries, same.entries));
    }
    EXPECT_EQ(with_.logits(*pass_with, sequences), without_.logits(*pass_without, sequences));
  };
  for (std::uint32_t round = 0; round < 3; ++round)
    step(8, 10 + round); // memory grows; then direct computation; then recording
  const auto recorded = graphs_.num_graphs();
  const auto replays = graphs_.num_replays();
  EXPECT_GT(recorded, 0U);
  for (std::uint32_t sequences = 5; sequences <= 8; ++sequences)
    step(sequences, 20 + sequences);
  EXPECT_EQ(graphs_.num_graphs(), recorded);
  EXPECT_EQ(graphs_.num_replays(), replays + 4 * recorded);
}

INSTANTIATE_TEST_SUITE_P(models, graphs_of_a_model, testing::Values("mixtral", "qwen2", "qwen2_dense_layers"),
                         [](const auto& tested) { return std::string{tested.param}; });

} // namespace
} // namespace troupe::model
