// Overlapping orders among batches: a host serves what its engine has, and nothing that it has dropped.
#include "actors/expert/expert_host.hpp"

#include "tests/unit/actors/serving_system.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class expert_host_orders_test : public serving_system {
 protected:
  void SetUp() override {
    serving_system::SetUp();
    one = add_host("expert-0");
  }

  /// Experts of layer 0.
  static std::vector<expert_id> of(std::initializer_list<std::uint32_t> indices) {
    std::vector<expert_id> result;
    for (const auto index : indices)
      result.push_back({0, index});
    return result;
  }

  void order(std::uint64_t number, const std::vector<expert_id>& wanted) {
    system.spawn([this, number, wanted](caf::event_based_actor* self) {
      self->request(one.actor, 600s, host_order{1, number, wanted}).then([this](const host_report& report) {
        reports[report.order] = report;
      });
    });
    run();
  }

  void load_now(std::uint64_t number, const std::vector<expert_id>& wanted) {
    order(number, wanted);
    ASSERT_TRUE(run_until([&] { return reports.count(number) > 0; }, 60s));
    ASSERT_EQ(reports[number].hosted, wanted);
  }

  /// The outcome of a batch for one expert of layer 0: ec::none if it is computed.
  ec ask_expert(std::uint32_t index) {
    expert_batch batch;
    batch.num_rows = 1;
    batch.experts = {index};
    batch.offsets = {0, 1};
    batch.rows = {0};
    batch.activations = payload::allocate(model.shape.row_bytes);
    model.activations(1000, batch.activations.mutable_data());
    const auto result = ask<expert_result>(one.actor, batch);
    return result ? ec::none : code_of(result.error());
  }

  host one;
  std::map<std::uint64_t, host_report> reports;
};

TEST_F(expert_host_orders_test,
       what_an_order_under_way_has_dropped_is_not_served_by_the_next_one_that_names_it) {
  load_now(1, of({1, 2}));
  one.loader->hang(); // a slow disk
  order(2, of({2, 3}));
  EXPECT_EQ(ask_expert(1), ec::not_hosted);
  EXPECT_EQ(ask_expert(2), ec::none);
  order(3, of({1, 2})); // takes expert 1 back
  EXPECT_EQ(reports[2].error, "replaced by order 3");
  EXPECT_EQ(reports[2].hosted, of({2}));
  EXPECT_EQ(ask_expert(1), ec::not_hosted) << "the engine has dropped it already";
  EXPECT_EQ(ask_expert(2), ec::none);
  EXPECT_EQ(terms_of(one).hosted, of({2}));
  one.loader->resume();
  ASSERT_TRUE(run_until([&] { return reports.count(3) > 0; }, 60s));
  EXPECT_EQ(reports[3].hosted, of({1, 2}));
  EXPECT_EQ(ask_expert(1), ec::none);
  EXPECT_EQ(ask_expert(3), ec::not_hosted);
  EXPECT_EQ(one.metrics->refusals.count(ec::engine_failed), 0U);
}

TEST_F(expert_host_orders_test, what_the_order_behind_will_drop_is_not_served_when_the_first_has_loaded) {
  one.loader->hang();
  order(1, of({1, 2}));
  order(2, of({2, 3}));
  order(3, of({1, 2, 3}));
  EXPECT_EQ(ask_expert(1), ec::not_hosted);
  one.loader->resume();
  // Order 1 is over at once; order 2, which drops expert 1, is under way, then order 3 brings it back.
  while (reports.count(3) == 0) {
    for (const std::uint32_t index : {1U, 2U, 3U}) {
      const auto code = ask_expert(index);
      ASSERT_TRUE(code == ec::none || code == ec::not_hosted)
          << "expert " << index << ": " << to_string(code);
    }
    advance(500us);
    ASSERT_LT(now(), 60s);
  }
  EXPECT_EQ(reports[3].hosted, of({1, 2, 3}));
  EXPECT_EQ(one.metrics->refusals.count(ec::engine_failed), 0U);
}

TEST_F(expert_host_orders_test, an_order_that_still_waits_for_batches_has_dropped_nothing) {
  load_now(1, of({1, 2}));
  one.device->hang(); // the batch is not done
  bool done = false;
  expert_batch batch;
  batch.num_rows = 1;
  batch.experts = {1};
  batch.offsets = {0, 1};
  batch.rows = {0};
  batch.activations = payload::allocate(model.shape.row_bytes);
  system.spawn([&](caf::event_based_actor* self) {
    self->request(one.actor, 600s, batch).then([&](const expert_result&) { done = true; });
  });
  run();
  order(2, of({2}));
  order(3, of({1, 2}));
  EXPECT_EQ(terms_of(one).hosted, of({1, 2})) << "order 2 never reached the engine";
  one.device->resume();
  ASSERT_TRUE(run_until([&] { return done && reports.count(3) > 0; }, 60s));
  EXPECT_EQ(reports[3].hosted, of({1, 2}));
  EXPECT_EQ(ask_expert(1), ec::none);
}

TEST_F(expert_host_orders_test, a_load_that_fails_leaves_what_survived_the_drop) {
  load_now(1, of({1, 2}));
  one.engine->fail_loads("tensor is missing");
  order(2, of({2, 3}));
  ASSERT_TRUE(run_until([&] { return reports.count(2) > 0; }, 60s));
  EXPECT_EQ(reports[2].error, "tensor is missing");
  EXPECT_EQ(reports[2].hosted, of({2}));
  EXPECT_EQ(ask_expert(1), ec::not_hosted);
  EXPECT_EQ(ask_expert(2), ec::none);
  EXPECT_EQ(ask_expert(3), ec::not_hosted);
}

TEST_F(expert_host_orders_test, renewals_say_how_old_the_oldest_step_is_and_loads_do_not_count) {
  load_now(1, of({1, 2}));
  one.loader->hang();
  order(2, of({1, 2, 3}));
  const auto engine = [this] { return ask<lease_renewal>(one.actor, load_atom_v)->engine; };
  const auto pass = [this](std::size_t renewals) {
    for (std::size_t i = 0; i < renewals; ++i) {
      ASSERT_TRUE(ask<lease_renewal>(one.actor, load_atom_v));
      advance(defaults::lease_interval);
    }
  };
  pass(60);
  EXPECT_EQ(engine(), (engine_progress{0, 0, 10'000}));
  one.device->hang();
  system.spawn([this](caf::event_based_actor* self) {
    expert_batch batch;
    batch.num_rows = 1;
    batch.experts = {1};
    batch.offsets = {0, 1};
    batch.rows = {0};
    batch.activations = payload::allocate(model.shape.row_bytes);
    self->request(one.actor, 600s, batch).then([](const expert_result&) {});
  });
  pass(21);
  EXPECT_EQ(engine(), (engine_progress{0, 10'500, 10'000}));
  EXPECT_TRUE(ask<worker_hello>(one.actor, caf::join_atom_v)->engine.is_stalled());
  one.device->resume();
  run();
  EXPECT_EQ(engine(), (engine_progress{1, 0, 21'000}));
}

} // namespace
} // namespace troupe
