// How every expert engine, real or simulated, handles orders: drop, then load, one order after another.
// Actors and simulations rely on it.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <gtest/gtest.h>

#include "actors/engine/model_expert_engine.hpp"
#include "actors/protocol/type_ids.hpp"
#include "kernels/self_test.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/reference/tested_backends.hpp"
#include "tests/simulation/simulated_engine.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// Events that take longer are assumed never to come.
constexpr auto patience = 30s;

/// An engine with layer 1 of experts, and a disk that the test controls.
struct engine_under_test {
  virtual ~engine_under_test() = default;
  virtual expert_engine& engine() = 0;
  /// Blocks loads from now on.
  virtual void block_loads() = 0;
  virtual void unblock_loads() = 0;
  /// Waits until the engine loads and is blocked.
  virtual void await_blocked() = 0;
  /// Makes expert 3 unloadable from now on.
  virtual void break_loads() = 0;
};

// -----------------------------------------------------------------------------------------------------------------

/// Experts behind a gate until they are loaded.
class gated_experts : public model::expert_backend {
 public:
  explicit gated_experts(std::unique_ptr<model::expert_backend> from) : from_(std::move(from)) {}

  const model::model_config& config() const override { return from_->config(); }

  kernels::dtype type() const override { return from_->type(); }

  void load(std::size_t layer, std::size_t expert) override {
    {
      std::unique_lock lock{mutex_};
      if (here_.contains({layer, expert}))
        return;
      niceness_.push_back(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())));
      is_waiting_ = true;
      changed_.notify_all();
      if (!changed_.wait_for(lock, patience, [this] { return is_open_; }))
        ADD_FAILURE() << "the gate stayed closed";
      is_waiting_ = false;
      if (is_broken_ && expert == 3)
        throw std::runtime_error("tensor is missing");
    }
    from_->load(layer, expert);
    const std::lock_guard lock{mutex_};
    here_.emplace(layer, expert);
  }

  bool unload(std::size_t layer, std::size_t expert) override {
    const std::lock_guard lock{mutex_};
    here_.erase({layer, expert});
    return from_->unload(layer, expert);
  }

  std::size_t num_bytes() const override { return from_->num_bytes(); }

  std::size_t expert_bytes(std::size_t layer) const override { return from_->expert_bytes(layer); }

  std::optional<std::size_t> forward(std::size_t layer, std::span<const model::expert_rows> batch) override {
    return from_->forward(layer, batch);
  }

  void set_open(bool is_open) {
    const std::lock_guard lock{mutex_};
    is_open_ = is_open;
    changed_.notify_all();
  }

  void await_visitor() {
    std::unique_lock lock{mutex_};
    EXPECT_TRUE(changed_.wait_for(lock, patience, [this] { return is_waiting_; }));
  }

  /// The niceness of the loading thread, for each load.
  std::vector<int> niceness() {
    const std::lock_guard lock{mutex_};
    return niceness_;
  }

  void break_one() {
    const std::lock_guard lock{mutex_};
    is_broken_ = true;
  }

 private:
  std::unique_ptr<model::expert_backend> from_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::pair<std::size_t, std::size_t>> here_; // layer, expert
  std::vector<int> niceness_;
  bool is_waiting_ = false;
  bool is_open_ = true;
  bool is_broken_ = false;
};

class model_engine_under_test : public engine_under_test {
 public:
  /// @param backend  of tested_backends()
  explicit model_engine_under_test(const std::string& backend) {
    auto queue = std::make_shared<compute_queue>(1, kernels::select_isa().chosen);
    const auto dtype = test::computes(backend, kernels::dtype::f32) ? model::dtype_choice::float32
                                                                    : model::dtype_choice::bfloat16;
    experts_ = std::make_shared<gated_experts>(
        test::open_backend(backend, queue->context(), folder_.folder(), dtype)->make_experts());
    const auto& config = experts_->config();
    model_expert_config settings;
    settings.shape.row_bytes = static_cast<std::uint32_t>(kernels::bytes_of(experts_->type(), config.hidden));
    for (const auto& layer : config.layers) {
      const auto* moe = layer.moe();
      settings.shape.layer_experts.push_back(moe == nullptr ? 0
                                                            : static_cast<std::uint32_t>(moe->num_experts));
    }
    settings.backend = experts_;
    settings.queue = std::move(queue);
    engine_ = make_model_expert_engine(std::move(settings));
  }

  ~model_engine_under_test() override { experts_->set_open(true); }

  expert_engine& engine() override { return *engine_; }

  void block_loads() override { experts_->set_open(false); }

  void unblock_loads() override { experts_->set_open(true); }

  void await_blocked() override { experts_->await_visitor(); }

  void break_loads() override { experts_->break_one(); }

  std::vector<int> niceness_of_loads() { return experts_->niceness(); }

 private:
  test::random_model folder_{"qwen2_dense_layers"}; // layer 1 is routed, the others are dense
  std::shared_ptr<gated_experts> experts_;
  std::shared_ptr<expert_engine> engine_;
};

// -----------------------------------------------------------------------------------------------------------------

class simulated_engine_under_test : public engine_under_test {
 public:
  simulated_engine_under_test() {
    simulated_expert_engine::config settings;
    settings.model.shape.layer_experts = {0, 8};
    settings.model.shape.row_bytes = 64;
    settings.costs.expert_load = 1us;
    loader_ = std::make_shared<simulated_device>(system_);
    engine_ = std::make_shared<simulated_expert_engine>(std::make_shared<simulated_device>(system_), loader_,
                                                        settings);
  }

  expert_engine& engine() override { return *engine_; }

  void block_loads() override { loader_->hang(); }

  void unblock_loads() override { loader_->resume(); }

  void await_blocked() override {} // an order is taken up as it is given

  void break_loads() override { engine_->fail_loads("tensor is missing"); }

 private:
  struct quiet_config : caf::actor_system_config {
    quiet_config() {
      configure(*this);
      set("scheduler.max-threads", 1);
    }
  };

  quiet_config config_;
  caf::actor_system system_{config_};
  std::shared_ptr<simulated_device> loader_;
  std::shared_ptr<simulated_expert_engine> engine_;
};

// -----------------------------------------------------------------------------------------------------------------

std::vector<std::string> tested_engines() {
  auto names = test::tested_backends();
  names.emplace_back("simulated");
  return names;
}

std::unique_ptr<engine_under_test> make_engine(const std::string& name) {
  if (name == "simulated")
    return std::make_unique<simulated_engine_under_test>();
  return std::make_unique<model_engine_under_test>(name);
}

class expert_engine_contract : public ::testing::TestWithParam<std::string> {
 protected:
  static std::vector<expert_id> of(std::initializer_list<std::uint32_t> indices) {
    std::vector<expert_id> result;
    for (const auto index : indices)
      result.push_back({1, index});
    return result;
  }

  std::future<expert_load_result> order(std::initializer_list<std::uint32_t> indices) {
    auto promise = std::make_shared<std::promise<expert_load_result>>();
    under_test->engine().host(
        of(indices), {}, [promise](expert_load_result result) { promise->set_value(std::move(result)); });
    return promise->get_future();
  }

  static expert_load_result result_of(std::future<expert_load_result> order) {
    if (order.wait_for(patience) == std::future_status::ready)
      return order.get();
    ADD_FAILURE() << "the order was not answered";
    return {};
  }

  /// Whether the expert can be used; otherwise the engine reports it as not loaded.
  bool computes(std::uint32_t index) {
    const auto row_bytes = under_test->engine().shape().row_bytes;
    expert_step step;
    step.layer = 1;
    auto row = payload::allocate(row_bytes);
    std::fill_n(row.mutable_data(), row_bytes, std::byte{0});
    step.batches.push_back({1, std::move(row)});
    step.work.push_back({index, 0, 0, {0}});
    auto promise = std::make_shared<std::promise<expert_step_result>>();
    under_test->engine().submit(
        std::move(step), [promise](expert_step_result result) { promise->set_value(std::move(result)); });
    auto future = promise->get_future();
    if (future.wait_for(patience) != std::future_status::ready) {
      ADD_FAILURE() << "the step was not answered";
      return false;
    }
    const auto result = future.get();
    if (result.error.empty())
      return true;
    EXPECT_EQ(result.error, "layer 1, expert " + std::to_string(index) + " is not loaded");
    return false;
  }

  std::unique_ptr<engine_under_test> under_test = make_engine(GetParam());
};

TEST_P(expert_engine_contract, while_a_load_is_under_way_what_it_dropped_is_gone_and_what_it_keeps_computes) {
  EXPECT_EQ(result_of(order({1, 2})).hosted, of({1, 2}));
  EXPECT_TRUE(computes(1));
  EXPECT_FALSE(computes(3));
  under_test->block_loads();
  auto next = order({2, 3});
  under_test->await_blocked();
  EXPECT_FALSE(computes(1));
  EXPECT_TRUE(computes(2));
  EXPECT_FALSE(computes(3));
  under_test->unblock_loads();
  const auto result = result_of(std::move(next));
  EXPECT_EQ(result.hosted, of({2, 3}));
  EXPECT_EQ(result.error, "");
  EXPECT_TRUE(computes(3));
  EXPECT_FALSE(computes(1));
}

TEST_P(expert_engine_contract, orders_are_carried_out_one_after_another) {
  result_of(order({1, 2}));
  under_test->block_loads();
  auto first = order({2, 3});
  auto second = order({1, 2});
  under_test->await_blocked();
  EXPECT_FALSE(computes(1)) << "the order that takes it back waits";
  EXPECT_TRUE(computes(2));
  under_test->unblock_loads();
  EXPECT_EQ(result_of(std::move(first)).hosted, of({2, 3})) << "as it was when it was carried out";
  EXPECT_EQ(result_of(std::move(second)).hosted, of({1, 2}));
  EXPECT_TRUE(computes(1));
  EXPECT_TRUE(computes(2));
  EXPECT_FALSE(computes(3));
}

TEST_P(expert_engine_contract, a_load_that_fails_says_why_and_leaves_what_was_kept) {
  result_of(order({1, 2}));
  under_test->break_loads();
  const auto result = result_of(order({2, 3}));
  EXPECT_EQ(result.hosted, of({2}));
  EXPECT_NE(result.error.find("tensor is missing"), std::string::npos) << result.error;
  EXPECT_FALSE(computes(1));
  EXPECT_TRUE(computes(2));
  EXPECT_FALSE(computes(3));
}

TEST_P(expert_engine_contract, an_order_for_nothing_drops_everything) {
  result_of(order({1, 2}));
  EXPECT_EQ(result_of(order({})).hosted, of({}));
  EXPECT_FALSE(computes(1));
  EXPECT_FALSE(computes(2));
}

TEST(model_expert_engine, loads_at_the_lowest_priority_once_it_serves) {
  model_engine_under_test under_test{test::tested_backends().front()};
  const auto host = [&](std::vector<expert_id> experts) {
    std::promise<void> done;
    under_test.engine().host(std::move(experts), {}, [&](const expert_load_result&) { done.set_value(); });
    ASSERT_EQ(done.get_future().wait_for(patience), std::future_status::ready);
  };
  host({}); // it serves nothing yet
  host({{1, 1}, {1, 2}});
  host({{1, 1}, {1, 2}, {1, 3}});
  const int usual = getpriority(PRIO_PROCESS, 0);
  EXPECT_EQ(under_test.niceness_of_loads(), (std::vector<int>{usual, usual, 19}));
}

INSTANTIATE_TEST_SUITE_P(engines, expert_engine_contract, ::testing::ValuesIn(tested_engines()),
                         [](const auto& name) { return name.param; });

} // namespace
} // namespace troupe
