#include "kernels/model/expert_store.hpp"

#include "tests/reference/random_model.hpp"

#include <atomic>
#include <cstring>
#include <future>
#include <gtest/gtest.h>
#include <random>
#include <thread>

namespace troupe::model {
namespace {

/// Rows of random values, and where their outputs go.
struct rows_of_one_expert {
  kernels::tensor in;
  kernels::tensor out;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;

  rows_of_one_expert(std::size_t n, std::size_t hidden, unsigned seed)
      : in(kernels::dtype::f32, n, hidden), out(kernels::dtype::f32, n, hidden) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t c = 0; c < hidden; ++c)
        in.view().row_as<float>(r)[c] = normal(random);
      inputs.push_back(in.view().row(r));
      outputs.push_back(out.view().row(r));
    }
  }

  expert_rows rows(std::size_t expert) { return {expert, inputs, outputs}; }

  bool equals(rows_of_one_expert& other) {
    for (std::size_t r = 0; r < inputs.size(); ++r)
      if (std::memcmp(outputs[r], other.outputs[r], out.view().cols * sizeof(float)) != 0)
        return false;
    return true;
  }
};

class expert_store_test : public testing::Test {
 protected:
  expert_store make() { return expert_store(ctx_, weights_); }

  test::random_model model_{"qwen2_dense_layers"}; // layer 1 is routed, the others are dense
  model_config config_ = load_config(model_.folder());
  std::shared_ptr<const cpu_weights> weights_ = std::make_shared<const checkpoint_source>(
      std::make_shared<const checkpoint>(checkpoint::open(model_.folder())), config_, kernels::dtype::f32);
  kernels::thread_pool pool_{{.threads = 1}};
  kernels::context ctx_{pool_};
};

TEST_F(expert_store_test, holds_what_was_loaded_and_counts_its_bytes) {
  auto store = make();
  EXPECT_EQ(store.num_bytes(), 0U);
  EXPECT_FALSE(store.has(1, 3));
  store.load(1, 3);
  store.load(1, 3);
  EXPECT_TRUE(store.has(1, 3));
  EXPECT_EQ(store.num_bytes(), store.expert_bytes(1));
  store.load(1, 5);
  EXPECT_EQ(store.num_bytes(), 2 * store.expert_bytes(1));
  EXPECT_TRUE(store.unload(1, 3));
  EXPECT_FALSE(store.unload(1, 3));
  EXPECT_FALSE(store.has(1, 3));
  EXPECT_EQ(store.num_bytes(), store.expert_bytes(1));
}

TEST_F(expert_store_test, refuses_experts_that_the_model_does_not_have) {
  auto store = make();
  EXPECT_THROW(store.load(1, 8), model_error);
  EXPECT_THROW(store.load(0, 0), model_error); // dense
  EXPECT_THROW(store.load(4, 0), model_error);
  EXPECT_FALSE(store.has(9, 9));
  EXPECT_FALSE(store.unload(9, 9));
  EXPECT_EQ(store.expert_bytes(0), 0U);
}

TEST_F(expert_store_test, an_expert_that_is_not_here_is_named_and_nothing_is_written) {
  auto store = make();
  store.load(1, 2);
  rows_of_one_expert here(2, config_.hidden, 1);
  rows_of_one_expert absent(2, config_.hidden, 2);
  const std::vector<expert_rows> batch{here.rows(2), absent.rows(6)};
  EXPECT_EQ(store.forward(1, batch), 6U);
  for (std::size_t c = 0; c < config_.hidden; ++c)
    EXPECT_EQ(here.out.view().row_as<float>(0)[c], 0.0F);
}

TEST_F(expert_store_test, a_row_gives_the_same_bits_alone_and_in_any_company) {
  auto store = make();
  store.load(1, 0);
  store.load(1, 7);
  rows_of_one_expert together(5, config_.hidden, 3);
  rows_of_one_expert alone(5, config_.hidden, 3);
  rows_of_one_expert others(9, config_.hidden, 4);
  const std::vector<expert_rows> batch{others.rows(7), together.rows(0)};
  ASSERT_EQ(store.forward(1, batch), std::nullopt);
  for (std::size_t r = 0; r < 5; ++r) {
    const expert_rows one{0, std::span{alone.inputs}.subspan(r, 1), std::span{alone.outputs}.subspan(r, 1)};
    ASSERT_EQ(store.forward(1, {&one, 1}), std::nullopt);
  }
  EXPECT_TRUE(together.equals(alone));
}

TEST_F(expert_store_test, experts_come_and_go_while_others_compute) {
  auto store = make();
  store.load(1, 0);
  rows_of_one_expert expected(3, config_.hidden, 5);
  const std::vector<expert_rows> once{expected.rows(0)};
  ASSERT_EQ(store.forward(1, once), std::nullopt);

  std::atomic<bool> stop{false};
  std::thread loader([&] {
    while (!stop) {
      store.load(1, 1);
      store.unload(1, 1);
      store.unload(1, 0);
      store.load(1, 0);
    }
  });
  std::size_t computed = 0;
  while (computed < 50) {
    rows_of_one_expert rows(3, config_.hidden, 5);
    const std::vector<expert_rows> batch{rows.rows(0)};
    if (store.forward(1, batch).has_value())
      continue; // it was absent just then, which is a valid answer
    EXPECT_TRUE(rows.equals(expected));
    ++computed;
  }
  stop = true;
  loader.join();
}

/// Weights of which one expert is returned only when the test allows it, or never.
class gated_weights final : public cpu_weights {
 public:
  explicit gated_weights(std::shared_ptr<const cpu_weights> from)
      : cpu_weights(from->config(), from->type(), from->quant()), from_(std::move(from)) {}

  std::string fingerprint() const override { return from_->fingerprint(); }

  std::string description() const override { return from_->description(); }

  std::vector<float> floats(const tensor_requirement& tensor) const override { return from_->floats(tensor); }

  kernels::packed_matrix matrix(const matrix_ref& ref) const override { return from_->matrix(ref); }

  kernels::expert_weights mlp(const mlp_ref& ref) const override { return from_->mlp(ref); }

  embedding_rows embeddings() const override { return from_->embeddings(); }

  kernels::expert_weights expert(std::size_t layer, std::size_t expert) const override {
    if (expert == 3) {
      is_inside.set_value();
      if (!opened.get())
        throw model_error("the disk fails");
    }
    return from_->expert(layer, expert);
  }

  void forget(std::size_t layer, std::size_t expert) const noexcept override { from_->forget(layer, expert); }

  mutable std::promise<void> is_inside;
  mutable std::promise<bool> open;
  mutable std::future<bool> opened = open.get_future();

 private:
  std::shared_ptr<const cpu_weights> from_;
};

TEST_F(expert_store_test, a_load_that_takes_long_holds_up_nobody) {
  const auto gated = std::make_shared<const gated_weights>(weights_);
  expert_store store(ctx_, gated);
  store.load(1, 0);
  store.load(1, 1);
  const auto one = store.num_bytes() / 2;
  std::thread loader([&] { store.load(1, 3); });
  gated->is_inside.get_future().wait();
  rows_of_one_expert rows(3, config_.hidden, 5);
  const std::vector<expert_rows> batch{rows.rows(0)};
  EXPECT_EQ(store.forward(1, batch), std::nullopt);
  EXPECT_TRUE(store.unload(1, 1));
  EXPECT_FALSE(store.has(1, 3));
  EXPECT_EQ(store.num_bytes(), one);
  gated->open.set_value(true);
  loader.join();
  EXPECT_TRUE(store.has(1, 3));
  EXPECT_EQ(store.num_bytes(), 2 * one);
}

TEST_F(expert_store_test, a_load_that_fails_leaves_nothing) {
  const auto gated = std::make_shared<const gated_weights>(weights_);
  expert_store store(ctx_, gated);
  store.load(1, 0);
  const auto before = store.num_bytes();
  gated->open.set_value(false);
  EXPECT_THROW(store.load(1, 3), model_error);
  EXPECT_FALSE(store.has(1, 3));
  EXPECT_EQ(store.num_bytes(), before);
  gated->is_inside = {};
  gated->open = {};
  gated->opened = gated->open.get_future();
  gated->open.set_value(true);
  store.load(1, 3);
  EXPECT_TRUE(store.has(1, 3));
}

} // namespace
} // namespace troupe::model
