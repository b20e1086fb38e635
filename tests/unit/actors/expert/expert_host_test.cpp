#include "actors/expert/expert_host.hpp"

#include <cstring>

#include "tests/unit/actors/serving_system.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class expert_host_test : public serving_system {
 public:
  void start(expert_host_config config = {}) {
    one = add_host("expert-0", config);
    load(one, all_experts());
  }

  /// A valid batch: rows of states 1000, 1001, … for experts 1 and 4 of layer 0.
  expert_batch sound_batch(std::uint64_t number = 1, std::uint32_t num_rows = 3) const {
    expert_batch result;
    result.batch = number;
    result.num_rows = num_rows;
    result.experts = {1, 4};
    result.offsets = {0, num_rows, num_rows + 1};
    for (std::uint32_t row = 0; row < num_rows; ++row)
      result.rows.push_back(row);
    result.rows.push_back(num_rows - 1);
    result.activations = payload::allocate(std::size_t{num_rows} * model.shape.row_bytes);
    auto* bytes = result.activations.mutable_data();
    for (std::uint32_t row = 0; row < num_rows; ++row)
      model.activations(1000 + row, bytes + std::size_t{row} * model.shape.row_bytes);
    return result;
  }

  void expect_right(const expert_batch& batch, const expert_result& result) {
    const auto row_bytes = model.shape.row_bytes;
    EXPECT_EQ(result.batch, batch.batch);
    ASSERT_EQ(result.outputs.size(), batch.rows.size() * row_bytes);
    std::vector<std::byte> wanted(row_bytes);
    for (std::size_t expert = 0; expert < batch.experts.size(); ++expert)
      for (auto i = batch.offsets[expert]; i < batch.offsets[expert + 1]; ++i) {
        model.expert(batch.layer, batch.experts[expert],
                     batch.activations.data() + std::size_t{batch.rows[i]} * row_bytes, wanted.data());
        EXPECT_EQ(std::memcmp(result.outputs.data() + std::size_t{i} * row_bytes, wanted.data(), row_bytes),
                  0)
            << "entry " << i;
      }
  }

  /// Sends a batch without waiting; the answer or the error lands in `answers` under the batch's number.
  void send(const expert_batch& batch) {
    system.spawn([this, batch](caf::event_based_actor* self) {
      self->request(one.actor, 10s, batch)
          .then([this, batch](expert_result& result) { answers.emplace(batch.batch, std::move(result)); },
                [this, batch](caf::error& error) { errors.emplace(batch.batch, std::move(error)); });
    });
    run();
  }

  host one;
  std::map<std::uint64_t, expert_result> answers;
  std::map<std::uint64_t, caf::error> errors;
};

TEST_F(expert_host_test, computes_rows_in_the_order_of_entries) {
  start();
  const auto batch = sound_batch();
  const auto result = ask<expert_result>(one.actor, batch);
  ASSERT_TRUE(result);
  expect_right(batch, *result);
  EXPECT_EQ(result->queue_ns, 0U);
  EXPECT_EQ(result->compute_ns, 2U * 50'000 + 4U * 3'000);
}

TEST_F(expert_host_test, merges_what_waits_for_the_same_layer) {
  start();
  for (std::uint64_t number = 1; number <= 5; ++number) {
    auto batch = sound_batch(number, static_cast<std::uint32_t>(number));
    batch.layer = number == 3 ? 2 : 0;
    send(batch);
  }
  ASSERT_TRUE(run_until([&] { return answers.size() == 5; }));
  for (const auto& [number, result] : answers) {
    auto batch = sound_batch(number, static_cast<std::uint32_t>(number));
    batch.layer = number == 3 ? 2 : 0;
    expect_right(batch, result);
  }
  // Batch 1 alone, then 2, 4 and 5 of its layer (they are older than 3), then 3.
  EXPECT_EQ(one.metrics->steps, 3U);
  EXPECT_EQ(one.metrics->most_merged, 3U);
  const auto status = ask<expert_host_status>(one.actor, status_atom_v);
  EXPECT_EQ(status->batches, 5U);
  EXPECT_EQ(status->steps, 3U);
  EXPECT_EQ(status->rows, 2U + 3 + 4 + 5 + 6);
  EXPECT_EQ(status->queued_rows, 0U);
  EXPECT_GT(answers[2].queue_ns, 0U);
  EXPECT_EQ(answers[1].queued_rows, 3U + 4 + 5 + 6) << "what the host held beside the step";
  for (const std::uint64_t number : {2U, 4U, 5U})
    EXPECT_EQ(answers[number].queued_rows, 4U) << "batch " << number;
  EXPECT_EQ(answers[3].queued_rows, 0U);
}

TEST_F(expert_host_test, a_lone_batch_lingers_for_company) {
  expert_host_config config;
  config.linger = 30us;
  start(config);
  const auto before = now();
  send(sound_batch(1));
  advance(10us);
  EXPECT_EQ(one.metrics->steps, 0U);
  send(sound_batch(2));
  ASSERT_TRUE(run_until([&] { return answers.size() == 2; }));
  EXPECT_EQ(one.metrics->most_merged, 2U);
  send(sound_batch(3));
  ASSERT_TRUE(run_until([&] { return answers.size() == 3; }));
  EXPECT_EQ(answers[3].queue_ns, 30'000U) << "nobody came";
  EXPECT_LT(now() - before, 1ms);
}

TEST_F(expert_host_test, malformed_batches_get_one_clear_error_each) {
  start();
  std::vector<std::pair<expert_batch, std::string>> cases;
  const auto add = [&](const std::string& what, const std::function<void(expert_batch&)>& spoil) {
    auto batch = sound_batch();
    spoil(batch);
    cases.emplace_back(batch, what);
  };
  add("layer 1 has no experts", [](auto& batch) { batch.layer = 1; });
  add("layer 4 has no experts", [](auto& batch) { batch.layer = 4; });
  add("expert 8 is out of range", [](auto& batch) { batch.experts = {1, 8}; });
  add("out of order", [](auto& batch) { batch.experts = {4, 1}; });
  add("out of order", [](auto& batch) { batch.experts = {1, 1}; });
  add("does not fit together", [](auto& batch) { batch.experts.clear(); });
  add("does not fit together", [](auto& batch) { batch.offsets.clear(); });
  add("does not fit together", [](auto& batch) { batch.offsets = {1, 3, 4}; });
  add("does not fit together", [](auto& batch) { batch.offsets = {0, 3, 5}; });
  add("has no rows", [](auto& batch) { batch.offsets = {0, 4, 4}; });
  add("has no rows", [](auto& batch) { batch.offsets = {0, 4000000000U, 4}; });
  add("a row is beyond the 3", [](auto& batch) { batch.rows[2] = 3; });
  add("bytes of activations", [](auto& batch) { batch.activations = batch.activations.slice(0, 191); });
  add("bytes of activations", [](auto& batch) { batch.num_rows = 4; });
  add("bytes of activations", [](auto& batch) { batch.num_rows = 0xffffffff; });
  for (const auto& [batch, what] : cases) {
    const auto result = ask<expert_result>(one.actor, batch);
    ASSERT_FALSE(result) << what;
    EXPECT_EQ(code_of(result.error()), ec::bad_request) << what;
    EXPECT_NE(text_of(result.error()).find(what), std::string::npos) << text_of(result.error());
  }
  EXPECT_EQ(one.metrics->refusals[ec::bad_request], cases.size());
  EXPECT_TRUE(ask<expert_result>(one.actor, sound_batch())) << "nothing is left behind";
}

TEST_F(expert_host_test, says_that_an_expert_is_elsewhere) {
  one = add_host("expert-0");
  load(one, all_experts([](expert_id id) { return id.index != 4; }));
  publish(one);
  auto batch = sound_batch();
  batch.layer_version = 1;
  const auto result = ask<expert_result>(one.actor, batch);
  ASSERT_FALSE(result);
  EXPECT_EQ(code_of(result.error()), ec::not_hosted);
  EXPECT_EQ(text_of(result.error()),
            "expert 4 of layer 0 is not hosted by expert-0 (the batch goes by version 1 of the layer's "
            "placement)");
}

TEST_F(expert_host_test, refuses_more_rows_than_it_may_queue) {
  expert_host_config config;
  config.max_queued_rows = 10;
  start(config);
  for (std::uint64_t number = 1; number <= 4; ++number)
    send(sound_batch(number)); // 4 entries each; the first runs, two wait
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(code_of(errors.at(4)), ec::overloaded);
  EXPECT_NE(text_of(errors.at(4)).find("8 rows wait in expert-0"), std::string::npos);
  ASSERT_TRUE(run_until([&] { return answers.size() == 3; }));
}

TEST_F(expert_host_test, a_failed_step_is_an_error_for_each_batch) {
  start();
  one.engine->fail(1, "out of memory");
  send(sound_batch(1));
  send(sound_batch(2));
  ASSERT_TRUE(run_until([&] { return answers.size() + errors.size() == 2; }));
  EXPECT_EQ(code_of(errors.at(1)), ec::engine_failed);
  EXPECT_EQ(text_of(errors.at(1)), "expert-0: out of memory");
  EXPECT_EQ(answers.count(2), 1U);
}

TEST_F(expert_host_test, steps_go_on_while_experts_load) {
  one = add_host("expert-0");
  load(one, all_experts([](expert_id id) { return id.layer == 0; }));
  bool loaded = false;
  system.spawn([&](caf::event_based_actor* self) {
    self->request(one.actor, 60s, host_order{1, 50, all_experts()}).then([&](const host_report& report) {
      EXPECT_EQ(report.error, "");
      EXPECT_EQ(report.hosted.size(), 22U);
      loaded = true;
    });
  });
  run();
  for (std::uint64_t number = 1; number <= 10; ++number) {
    send(sound_batch(number));
    advance(1ms);
  }
  EXPECT_EQ(answers.size(), 10U);
  EXPECT_FALSE(loaded) << "14 experts take 70 ms";
  ASSERT_TRUE(run_until([&] { return loaded; }));
}

TEST_F(expert_host_test, released_experts_finish_what_was_accepted) {
  start();
  for (std::uint64_t number = 1; number <= 3; ++number)
    send(sound_batch(number)); // one runs, two wait
  bool done = false;
  system.spawn([&](caf::event_based_actor* self) {
    self->request(one.actor, 60s, host_order{1, 50, all_experts([](expert_id id) { return id.index != 4; })})
        .then([&](const host_report& report) {
          EXPECT_EQ(report.hosted.size(), 19U);
          done = true;
        });
  });
  run();
  send(sound_batch(4));
  EXPECT_EQ(code_of(errors.at(4)), ec::not_hosted) << "nothing new for what is released";
  ASSERT_TRUE(run_until([&] { return done; }));
  EXPECT_EQ(answers.size(), 3U);
}

TEST_F(expert_host_test, the_newest_order_wins) {
  one = add_host("expert-0");
  std::vector<host_report> reports;
  const auto order = [&](std::uint64_t number, const std::vector<expert_id>& wanted) {
    system.spawn([&, number, wanted](caf::event_based_actor* self) {
      self->request(one.actor, 60s, host_order{1, number, wanted}).then([&](const host_report& report) {
        reports.push_back(report);
      });
    });
    run();
  };
  order(1, all_experts([](expert_id id) { return id.layer == 0; }));
  order(2, all_experts([](expert_id id) { return id.layer == 2; }));
  order(3, all_experts([](expert_id id) { return id.layer == 3; }));
  ASSERT_TRUE(run_until([&] { return reports.size() == 3; }));
  EXPECT_EQ(reports[0].order, 1U);
  EXPECT_EQ(reports[0].error, "replaced by order 2");
  EXPECT_EQ(reports[1].error, "replaced by order 3");
  EXPECT_EQ(reports[2].error, "");
  EXPECT_EQ(reports[2].hosted, all_experts([](expert_id id) { return id.layer == 3; }));
  const auto older = ask<host_report>(one.actor, host_order{1, 2, {}});
  ASSERT_FALSE(older);
  EXPECT_EQ(code_of(older.error()), ec::stale_term);
  ASSERT_TRUE(ask<host_report>(one.actor, host_order{2, 1, {}})) << "a newer term counts from the start";
  const auto stale = ask<host_report>(one.actor, host_order{1, 90, {}});
  ASSERT_FALSE(stale);
  EXPECT_EQ(code_of(stale.error()), ec::stale_term);
}

TEST_F(expert_host_test, reports_what_cannot_be_loaded) {
  expert_host_config config;
  config.expert_memory_bytes = 10 << 20;
  one = add_host("expert-0", config);
  const auto many = ask_within<host_report>(60s, one.actor, host_order{1, 1, all_experts()});
  ASSERT_TRUE(many);
  EXPECT_NE(many->error.find("22 experts take 23068672 bytes"), std::string::npos) << many->error;
  const auto unknown = ask_within<host_report>(60s, one.actor, host_order{1, 2, {{1, 0}}});
  EXPECT_NE(unknown->error.find("no expert 0 in layer 1"), std::string::npos) << unknown->error;
  one.engine->fail_loads("tensor is missing");
  const auto failed = ask_within<host_report>(60s, one.actor, host_order{1, 3, {{0, 1}, {0, 4}}});
  EXPECT_EQ(failed->error, "tensor is missing");
  EXPECT_TRUE(failed->hosted.empty());
  one.engine->fail_loads("");
  const auto loaded = ask_within<host_report>(60s, one.actor, host_order{1, 4, {{0, 4}, {0, 1}, {0, 4}}});
  EXPECT_EQ(loaded->error, "");
  EXPECT_EQ(loaded->hosted, (std::vector<expert_id>{{0, 1}, {0, 4}}));
  EXPECT_TRUE(ask<expert_result>(one.actor, sound_batch()));
}

TEST_F(expert_host_test, exit_while_busy_answers_everybody) {
  start();
  send(sound_batch(1));
  send(sound_batch(2));
  caf::error order;
  system.spawn([&](caf::event_based_actor* self) {
    self->request(one.actor, 60s, host_order{1, 50, {}})
        .then([](const host_report&) {}, [&](const caf::error& error) { order = error; });
  });
  run();
  caf::anon_send_exit(one.actor, caf::exit_reason::user_shutdown);
  run();
  EXPECT_EQ(code_of(errors.at(1)), ec::shutting_down);
  EXPECT_EQ(code_of(errors.at(2)), ec::shutting_down);
  EXPECT_EQ(code_of(order), ec::shutting_down);
  advance(1s); // the result of the running step has no receiver
}

TEST_F(expert_host_test, says_what_it_is_and_how_it_fares) {
  expert_host_config config;
  config.expert_memory_bytes = 1 << 30;
  start(config);
  const auto hello = ask<worker_hello>(one.actor, caf::join_atom_v);
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->address, one.address);
  EXPECT_EQ(hello->numerics_class, "modelled");
  const auto terms = terms_of(one);
  EXPECT_EQ(terms.expert_bytes, 1U << 20);
  EXPECT_EQ(terms.memory_bytes, 1U << 30);
  EXPECT_EQ(terms.hosted, all_experts());
  send(sound_batch(1, 3));
  send(sound_batch(2, 2));
  const auto busy = ask_within<lease_renewal>(0s, one.actor, load_atom_v);
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->running, 2U);
  EXPECT_EQ(busy->waiting, 3U);
  ASSERT_TRUE(run_until([&] { return answers.size() == 2; }));
  const auto rest = ask<lease_renewal>(one.actor, load_atom_v);
  EXPECT_EQ(rest->running, 0U);
  EXPECT_EQ(rest->waiting, 0U);
}

} // namespace
} // namespace troupe
