#include "actors/attention_worker.hpp"

#include <limits>
#include <random>
#include <tuple>

#include "actors/defaults.hpp"
#include "tests/unit/actors/serving_system.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class attention_worker_test : public serving_system {
 public:
  /// One worker and one host with everything.
  void start(attention_worker_config config = {}, modelled_attention_engine::config settings = {}) {
    one = add_host("expert-0");
    load(one, all_experts());
    attention = add_worker("attention-0", config, settings);
    publish(attention, one);
    client = add_client(results);
  }

  /// Submits, and expects what the model gives for the request alone.
  void submit_expecting(const generation_request& request) {
    wanted[request.id] = expected(request);
    submit(attention, client, request);
  }

  void finish_all() {
    ASSERT_TRUE(run_until([&] { return all_finished(results, wanted.size()); })) << results.size();
    for (const auto& [id, output] : wanted) {
      const auto& got = results.at(id);
      EXPECT_EQ(got.failure, ec::none) << got.failure_text;
      EXPECT_EQ(got.output, output) << "request " << id.request.value << " choice " << id.choice;
    }
    const auto status = status_of(attention);
    EXPECT_EQ(status.kv_blocks_used, 0U) << "KV blocks leak";
    EXPECT_EQ(status.running + status.waiting, 0U);
  }

  /// What came of request `number`, choice 0.
  outcome& of(uint64_t number) { return results[sequence_id{{number}, 0}]; }

  host one;
  worker attention;
  outcomes results;
  std::map<sequence_id, modelled_output> wanted;
  token_receiver_actor client;
};

/// A request with everything that can differ, from a seeded generator.
generation_request random_request(std::mt19937& random, const serving_system& cluster, uint64_t number) {
  const auto draw = [&](int32_t low, int32_t high) {
    return std::uniform_int_distribution{low, high}(random);
  };
  auto result = cluster.make_request(number, static_cast<uint32_t>(draw(1, 40)), draw(1, 24));
  result.id.choice = static_cast<uint32_t>(draw(0, 3));
  result.priority = draw(-1, 1);
  auto& sampling = result.sampling;
  sampling.temperature = draw(0, 1) == 0 ? 0.0F : 0.8F;
  sampling.num_logprobs = draw(-1, 3);
  sampling.prompt_logprobs = draw(0, 4) == 0 ? draw(0, 2) : -1;
  sampling.min_tokens = draw(0, 4);
  for (int32_t stop = 0; stop < draw(0, 60); ++stop)
    sampling.stop_token_ids.push_back(draw(0, 996));
  return result;
}

TEST_F(attention_worker_test, gives_the_tokens_of_the_model) {
  start();
  submit_expecting(make_request(1, 5, 8));
  finish_all();
  EXPECT_EQ(results.begin()->second.output.tokens.size(), 8U);
}

TEST_F(attention_worker_test, hundreds_of_random_requests_get_what_each_gets_alone) {
  std::mt19937 random{20260801};
  attention_worker_config config;
  config.max_num_seqs = 24;
  config.max_num_batched_tokens = 64;
  config.max_waiting = 1000;
  config.max_micro_batches = 3;
  start(config);
  for (uint64_t number = 1; number <= 300; ++number) {
    submit_expecting(random_request(random, *this, number));
    if (number % 3 == 0)
      advance(std::chrono::microseconds{std::uniform_int_distribution{0, 2000}(random)});
  }
  finish_all();
  EXPECT_GT(attention.metrics->most_rows, 32U) << "batches must have been shared";
  EXPECT_LE(attention.metrics->most_rows, 64U);
}

TEST_F(attention_worker_test, tokens_do_not_depend_on_chunks_blocks_or_micro_batches) {
  auto number = 0;
  for (const auto& [chunk, block, blocks, micro_batches] :
       {std::tuple{512U, 4U, 256U, 1U}, std::tuple{3U, 16U, 64U, 1U}, std::tuple{16U, 1U, 200U, 3U}}) {
    attention_worker_config config;
    config.max_num_batched_tokens = chunk;
    config.max_micro_batches = micro_batches;
    modelled_attention_engine::config settings;
    settings.block_tokens = block;
    settings.num_blocks = blocks;
    if (number == 0)
      start(config, settings);
    else
      attention = add_worker("attention-" + std::to_string(number), config, settings);
    publish(attention);
    results.clear();
    std::mt19937 random{5};
    for (uint64_t request = 1; request <= 40; ++request)
      submit_expecting(random_request(random, *this, request));
    finish_all();
    ++number;
  }
}

TEST_F(attention_worker_test, choices_prefill_their_prompt_once) {
  start();
  auto request = make_request(1, 30, 6);
  for (uint32_t choice = 0; choice < 4; ++choice) {
    request.id.choice = choice;
    submit_expecting(request);
  }
  finish_all();
  // Seven blocks of 4 are shared; the two tokens behind them and five new ones are each choice's own.
  EXPECT_EQ(attention.metrics->rows, 28U + 4U * (2U + 5U));
  EXPECT_NE(of(1).output.tokens, (results[sequence_id{{1}, 1}].output.tokens)) << "each draws its own";
}

TEST_F(attention_worker_test, choices_with_another_prompt_share_nothing) {
  start();
  auto request = make_request(1, 30, 6);
  submit_expecting(request);
  request.id.choice = 1;
  ++request.prompt[0];
  submit_expecting(request);
  finish_all();
  EXPECT_EQ(attention.metrics->rows, 2U * (30U + 5U));
}

TEST_F(attention_worker_test, preempts_when_the_cache_is_full_and_nobody_notices) {
  modelled_attention_engine::config settings;
  settings.num_blocks = 26; // of 4 tokens: two sequences of full length, or many short ones
  attention_worker_config config;
  config.max_num_seqs = 16;
  start(config, settings);
  for (uint64_t number = 1; number <= 24; ++number) {
    auto request = make_request(number, static_cast<uint32_t>(3 + number % 9), 30);
    request.sampling.prompt_logprobs = number % 2 == 0 ? 1 : -1;
    submit_expecting(request);
  }
  finish_all();
  EXPECT_GT(attention.metrics->preemptions, 3U);
  EXPECT_EQ(status_of(attention).preemptions, attention.metrics->preemptions);
}

TEST_F(attention_worker_test, prompt_logprobs_survive_chunks_and_come_once) {
  attention_worker_config config;
  config.max_num_batched_tokens = 4;
  start(config);
  auto request = make_request(1, 23, 5);
  request.sampling.prompt_logprobs = 2;
  submit_expecting(request);
  submit_expecting(make_request(2, 9, 12));
  finish_all();
  EXPECT_EQ(results[request.id].output.prompt_logprobs.size(), 22U);
}

TEST_F(attention_worker_test, stops_at_the_context) {
  start();
  submit_expecting(make_request(1, 90, 50));
  finish_all();
  EXPECT_EQ(results.begin()->second.output.tokens.size(), 6U);
  EXPECT_EQ(results.begin()->second.output.finish, finish_reason::length);
}

TEST_F(attention_worker_test, a_sequence_that_can_never_fit_is_refused) {
  modelled_attention_engine::config settings;
  settings.num_blocks = 10; // 40 positions
  start({}, settings);
  submit(attention, client, make_request(1, 40, 1));
  run();
  EXPECT_EQ(of(1).failure, ec::context_exceeded);
  EXPECT_NE(of(1).failure_text.find("40 positions"), std::string::npos);
  submit(attention, client, make_request(2, 39, 5));
  ASSERT_TRUE(run_until([&] { return of(2).finished; }));
  EXPECT_EQ(of(2).output.tokens.size(), 1U);
  EXPECT_EQ(ask<worker_hello>(attention.actor, caf::join_atom_v)->max_model_len, 40U);
}

TEST_F(attention_worker_test, unsound_requests_are_refused) {
  start();
  auto empty = make_request(1, 1, 1);
  empty.prompt.clear();
  auto outside = make_request(2, 1, 1);
  outside.prompt[0] = 997;
  auto nothing = make_request(3, 1, 0);
  auto nan = make_request(4, 1, 1);
  nan.sampling.temperature = std::numeric_limits<float>::quiet_NaN();
  auto bias = make_request(5, 1, 1);
  bias.sampling.logit_bias = {{-3, 1.0F}};
  auto emitted = make_request(6, 1, 3);
  emitted.emitted = {-1};
  auto logprobs = make_request(7, 1, 1);
  logprobs.sampling.num_logprobs = 1000;
  for (const auto& request : {empty, outside, nothing, nan, bias, emitted, logprobs}) {
    submit(attention, client, request);
    run();
    EXPECT_EQ(results[request.id].failure, ec::bad_request) << request.id.request.value;
    EXPECT_NE(results[request.id].failure_text, "");
  }
}

TEST_F(attention_worker_test, intake_is_bounded) {
  attention_worker_config config;
  config.max_num_seqs = 2;
  config.max_waiting = 3;
  start(config);
  for (uint64_t number = 1; number <= 8; ++number)
    submit(attention, client, make_request(number, 2, 3));
  ASSERT_TRUE(run_until([&] { return all_finished(results, 8); }));
  uint64_t refused = 0;
  for (const auto& [id, got] : results) {
    if (got.failure == ec::none)
      EXPECT_EQ(got.output, expected(make_request(id.request.value, 2, 3)));
    else
      EXPECT_EQ(got.failure, ec::overloaded);
    refused += got.failure == ec::overloaded ? 1 : 0;
  }
  // The first goes into flight alone; a second seat is only taken by the next plan.
  EXPECT_GE(refused, 3U);
  EXPECT_LE(refused, 4U);
}

TEST_F(attention_worker_test, cancelling_frees_blocks_within_one_iteration) {
  start();
  submit(attention, client, make_request(1, 30, 60));
  submit_expecting(make_request(2, 4, 40));
  ASSERT_TRUE(run_until([&] { return of(1).output.tokens.size() == 3; }));
  const auto iterations = attention.metrics->iterations;
  caf::send_as(client, attention.actor, cancel_atom_v, sequence_id{{1}, 0}, uint32_t{0});
  run_until([&] { return attention.metrics->iterations > iterations; });
  const auto status = status_of(attention);
  EXPECT_EQ(status.running, 1U);
  EXPECT_LE(status.kv_blocks_used, 3U) << "the second sequence has at most 12 tokens by now";
  results.erase(sequence_id{{1}, 0});
  finish_all();
  EXPECT_EQ(results.count(sequence_id{{1}, 0}), 0U) << "no token after the cancellation";
}

TEST_F(attention_worker_test, cancelling_while_waiting_and_unknown_sequences) {
  attention_worker_config config;
  config.max_num_seqs = 1;
  start(config);
  submit_expecting(make_request(1, 4, 5));
  submit(attention, client, make_request(2, 4, 5));
  caf::anon_send(attention.actor, cancel_atom_v, sequence_id{{2}, 0}, uint32_t{0});
  caf::anon_send(attention.actor, cancel_atom_v, sequence_id{{77}, 0}, uint32_t{0});
  finish_all();
  EXPECT_EQ(results.size(), 1U);
}

TEST_F(attention_worker_test, a_dead_session_takes_its_sequences_with_it) {
  start();
  outcomes other;
  const auto doomed = add_client(other);
  for (uint64_t choice = 0; choice < 3; ++choice) {
    auto request = make_request(9, 6, 50);
    request.id.choice = static_cast<uint32_t>(choice);
    submit(attention, doomed, request);
  }
  submit_expecting(make_request(1, 4, 30));
  ASSERT_TRUE(run_until([&] { return of(1).output.tokens.size() == 4; }));
  EXPECT_EQ(status_of(attention).running, 4U);
  kill(doomed);
  const auto iterations = attention.metrics->iterations;
  run_until([&] { return attention.metrics->iterations > iterations; });
  EXPECT_EQ(status_of(attention).running, 1U);
  finish_all();
}

TEST_F(attention_worker_test, a_replay_goes_on_where_the_tokens_stopped) {
  start();
  auto request = make_request(1, 7, 20);
  request.sampling.min_tokens = 12;
  request.sampling.prompt_logprobs = 1;
  for (int32_t token = 0; token < 997; token += 9)
    request.sampling.stop_token_ids.push_back(token);
  const auto whole = expected(request);
  ASSERT_GE(whole.tokens.size(), 12U);
  for (const size_t emitted : {1U, 5U, 11U}) {
    auto replay = request;
    replay.id.request.value = 10 + emitted;
    replay.attempt = 3;
    for (size_t i = 0; i < emitted; ++i)
      replay.emitted.push_back(whole.tokens[i].token);
    submit(attention, client, replay);
    ASSERT_TRUE(run_until([&] { return results[replay.id].finished; }));
    const auto& got = results[replay.id];
    EXPECT_EQ(got.first_index, emitted);
    EXPECT_TRUE(got.output.prompt_logprobs.empty()) << "the session has them";
    EXPECT_TRUE(std::equal(got.output.tokens.begin(), got.output.tokens.end(),
                           whole.tokens.begin() + static_cast<int>(emitted), whole.tokens.end()));
    EXPECT_EQ(got.output.stop_token, whole.stop_token);
    EXPECT_EQ(got.attempts.back(), 3U);
  }
}

TEST_F(attention_worker_test, a_replay_that_was_complete_ends_at_once) {
  start();
  auto request = make_request(1, 7, 2);
  request.emitted = {4, 5};
  submit(attention, client, request);
  run();
  EXPECT_TRUE(results[request.id].finished);
  EXPECT_EQ(results[request.id].output.finish, finish_reason::length);
  EXPECT_EQ(results[request.id].first_index, 2U);
}

TEST_F(attention_worker_test, a_newer_attempt_replaces_the_older_one_and_an_older_one_is_ignored) {
  start();
  auto request = make_request(1, 7, 30);
  const auto whole = expected(request);
  request.attempt = 1;
  submit(attention, client, request);
  ASSERT_TRUE(run_until([&] { return results[request.id].output.tokens.size() == 5; }));
  auto newer = request;
  newer.attempt = 2;
  for (size_t i = 0; i < results[request.id].output.tokens.size(); ++i)
    newer.emitted.push_back(whole.tokens[i].token);
  submit(attention, client, newer);
  auto older = request;
  older.attempt = 0;
  submit(attention, client, older);
  submit(attention, client, newer);                                        // twice
  caf::anon_send(attention.actor, cancel_atom_v, request.id, uint32_t{1}); // of the old attempt
  ASSERT_TRUE(run_until([&] { return results[request.id].finished; }));
  EXPECT_EQ(results[request.id].output, whole);
  EXPECT_EQ(results[request.id].attempts.back(), 2U);
  advance(1s);
  EXPECT_EQ(status_of(attention).kv_blocks_used, 0U);
}

TEST_F(attention_worker_test, ignores_eos_but_not_other_stop_tokens) {
  model.shape.eos_token_ids = {11, 12};
  start();
  auto request = make_request(1, 7, 40);
  request.sampling.stop_token_ids = {11, 12};
  for (int32_t token = 100; token < 160; ++token)
    request.sampling.stop_token_ids.push_back(token);
  request.sampling.ignore_eos = true;
  auto without = request;
  without.sampling.stop_token_ids.erase(without.sampling.stop_token_ids.begin(),
                                        without.sampling.stop_token_ids.begin() + 2);
  wanted[request.id] = expected(without);
  submit(attention, client, request);
  finish_all();
}

TEST_F(attention_worker_test, priority_goes_before_arrival) {
  attention_worker_config config;
  config.max_num_seqs = 1;
  start(config);
  std::vector<uint64_t> order;
  for (uint64_t number = 1; number <= 4; ++number) {
    auto request = make_request(number, 4, 6);
    request.priority = number == 4 ? -5 : 0;
    submit_expecting(request);
  }
  while (order.size() < 4) {
    ASSERT_TRUE(run_until([&] {
      for (const auto& [id, got] : results)
        if (got.finished && std::find(order.begin(), order.end(), id.request.value) == order.end()) {
          order.push_back(id.request.value);
          return true;
        }
      return false;
    }));
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 4, 2, 3}));
  finish_all();
}

TEST_F(attention_worker_test, drains_what_runs_and_takes_nothing_new) {
  start();
  submit_expecting(make_request(1, 5, 20));
  run();
  bool drained = false;
  const auto ask_to_drain = [&] {
    root(system.spawn([&](caf::event_based_actor* self) -> caf::behavior {
      self->request(attention.actor, 10s, drain_atom_v).then([&] { drained = true; });
      return {[](int) {}};
    }));
  };
  ask_to_drain();
  run();
  EXPECT_FALSE(drained);
  submit(attention, client, make_request(2, 5, 5));
  run();
  EXPECT_EQ(of(2).failure, ec::shutting_down);
  results.erase(sequence_id{{2}, 0});
  ASSERT_TRUE(run_until([&] { return drained; }));
  finish_all();
  drained = false;
  ask_to_drain();
  run();
  EXPECT_TRUE(drained) << "an idle worker is drained at once";
}

TEST_F(attention_worker_test, exit_while_busy_answers_and_leaves_nothing_behind) {
  start();
  submit(attention, client, make_request(1, 5, 20));
  caf::error answer;
  root(system.spawn([&](caf::event_based_actor* self) -> caf::behavior {
    self->request(attention.actor, 10s, drain_atom_v)
        .then([] {}, [&](const caf::error& error) { answer = error; });
    return {[](int) {}};
  }));
  ASSERT_TRUE(run_until([&] { return of(1).output.tokens.size() == 2; }));
  caf::anon_send_exit(attention.actor, caf::exit_reason::user_shutdown);
  run();
  EXPECT_EQ(code_of(answer), ec::shutting_down);
  advance(30s); // steps and expert batches that were on their way come back to nobody
  EXPECT_EQ(of(1).output.tokens.size(), 2U);
}

TEST_F(attention_worker_test, a_failed_step_fails_its_sequences_and_no_others) {
  attention_worker_config config;
  start(config);
  submit(attention, client, make_request(1, 5, 20));
  submit(attention, client, make_request(2, 5, 20));
  ASSERT_TRUE(run_until([&] { return of(2).output.tokens.size() == 2; }));
  attention.engine->fail(1, "out of memory");
  ASSERT_TRUE(run_until([&] { return of(1).finished && of(2).finished; }));
  for (const uint64_t number : {1U, 2U}) {
    EXPECT_EQ(of(number).failure, ec::engine_failed);
    EXPECT_EQ(of(number).failure_text, "attention-0: out of memory");
  }
  results.clear();
  submit_expecting(make_request(3, 5, 20));
  finish_all();
}

TEST_F(attention_worker_test, says_what_it_is_and_how_it_fares) {
  start();
  const auto hello = ask<worker_hello>(attention.actor, caf::join_atom_v);
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->address, attention.address);
  EXPECT_EQ(hello->fingerprint, "modelled");
  EXPECT_EQ(hello->layer_experts, model.shape.layer_experts);
  EXPECT_EQ(hello->kv_capacity_tokens, 1024U);
  EXPECT_EQ(hello->max_model_len, 96U);
  submit_expecting(make_request(1, 5, 4));
  ASSERT_TRUE(run_until([&] { return results.size() == 1; }));
  EXPECT_EQ(ask<worker_hello>(attention.actor, caf::join_atom_v)->running.size(), 1U);
  const auto busy = ask<lease_renewal>(attention.actor, load_atom_v);
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->running, 1U);
  EXPECT_GT(busy->kv_tokens_used, 0U);
  finish_all();
  auto rows = uint64_t{0};
  for (const auto& count : busy->activations[0])
    rows += count;
  const auto rest = ask<lease_renewal>(attention.actor, load_atom_v);
  for (const auto& count : rest->activations[0])
    rows += count;
  EXPECT_EQ(rows, 8U * 2) << "5 prompt tokens and 3 decoded ones, two experts each";
  EXPECT_TRUE(busy->activations[1].empty()) << "a dense layer";
}

} // namespace
} // namespace troupe
