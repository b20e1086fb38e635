// Sequences of an attention worker that end early, come back, or outlive it.
#include <chrono>

#include "tests/unit/actors/attention/attention_worker_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

TEST_F(attention_worker_test, cancelling_frees_blocks_within_one_iteration) {
  start();
  submit(attention, client, make_request(1, 30, 60));
  submit_expecting(make_request(2, 4, 40));
  ASSERT_TRUE(run_until([&] { return of(1).output.tokens.size() == 3; }));
  const auto iterations = attention.metrics->iterations;
  caf::send_as(client, attention.actor, cancel_atom_v, sequence_id{{1}, 0}, std::uint32_t{0});
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
  caf::anon_send(attention.actor, cancel_atom_v, sequence_id{{2}, 0}, std::uint32_t{0});
  caf::anon_send(attention.actor, cancel_atom_v, sequence_id{{77}, 0}, std::uint32_t{0});
  finish_all();
  EXPECT_EQ(results.size(), 1U);
}

TEST_F(attention_worker_test, a_dead_session_takes_its_sequences_with_it) {
  start();
  outcomes other;
  const auto doomed = add_client(other);
  for (std::uint64_t choice = 0; choice < 3; ++choice) {
    auto request = make_request(9, 6, 50);
    request.id.choice = static_cast<std::uint32_t>(choice);
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
  for (std::int32_t token = 0; token < 997; token += 9)
    request.sampling.stop_token_ids.push_back(token);
  const auto whole = expected(request);
  ASSERT_GE(whole.tokens.size(), 12U);
  for (const std::size_t emitted : {1U, 5U, 11U}) {
    auto replay = request;
    replay.id.request.value = 10 + emitted;
    replay.attempt = 3;
    for (std::size_t i = 0; i < emitted; ++i)
      replay.emitted.push_back(whole.tokens[i].token);
    submit(attention, client, replay);
    ASSERT_TRUE(run_until([&] { return results[replay.id].finished; }));
    const auto& got = results[replay.id];
    EXPECT_EQ(got.first_index, emitted);
    EXPECT_TRUE(got.output.prompt_logprobs.empty()) << "the session has them";
    EXPECT_TRUE(std::equal(got.output.tokens.begin(), got.output.tokens.end(),
                           whole.tokens.begin() + static_cast<int>(emitted), whole.tokens.end()));
    EXPECT_EQ(got.output.finish, whole.finish);
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
  for (std::size_t i = 0; i < results[request.id].output.tokens.size(); ++i)
    newer.emitted.push_back(whole.tokens[i].token);
  submit(attention, client, newer);
  auto older = request;
  older.attempt = 0;
  submit(attention, client, older);
  submit(attention, client, newer);                                             // twice
  caf::anon_send(attention.actor, cancel_atom_v, request.id, std::uint32_t{1}); // of the old attempt
  ASSERT_TRUE(run_until([&] { return results[request.id].finished; }));
  EXPECT_EQ(results[request.id].output, whole);
  EXPECT_EQ(results[request.id].attempts.back(), 2U);
  advance(1s);
  EXPECT_EQ(status_of(attention).kv_blocks_used, 0U);
}

TEST_F(attention_worker_test, tells_those_that_hear_nothing_that_it_gets_on) {
  attention_worker_config config;
  config.max_num_seqs = 1;
  start(config);
  one.device->slow_down(2'000); // a token takes more than half a second
  auto request = make_request(1, 10, 60);
  submit_expecting(request);
  submit_expecting(make_request(2, 10, 2));
  const auto words = [&](std::uint64_t number) {
    return of(number).attempts.size() - of(number).output.tokens.size();
  };
  ASSERT_TRUE(run_until([&] { return of(1).output.tokens.size() == 1; }, 60s));
  const auto words_before = words(1);
  const auto before = now();
  const auto others_before = words(2);
  ASSERT_TRUE(run_until([&] { return words(2) == others_before + 3; }, 60s)) << "it waits behind the other";
  EXPECT_GE(now() - before, 2 * defaults::progress_interval);
  EXPECT_LT(now() - before, 4 * defaults::progress_interval);
  EXPECT_EQ(words(1), words_before) << "tokens say enough";
  ASSERT_TRUE(run_until([&] { return of(2).finished; }, 600s));
  finish_all();
}

TEST_F(attention_worker_test, a_worker_whose_engine_hangs_does_not_say_that_it_gets_on) {
  start();
  submit_expecting(make_request(1, 5, 20));
  submit_expecting(make_request(2, 5, 20));
  ASSERT_TRUE(run_until([&] { return of(2).output.tokens.size() == 2; }));
  attention.device->hang();
  advance(1s);
  const auto updates = of(1).attempts.size() + of(2).attempts.size();
  const auto steps = ask<lease_renewal>(attention.actor, load_atom_v)->engine.steps;
  for (int i = 0; i < 22; ++i) {
    advance(500ms);
    ASSERT_TRUE(ask<lease_renewal>(attention.actor, load_atom_v)) << "the actor is well";
  }
  EXPECT_EQ(of(1).attempts.size() + of(2).attempts.size(), updates);
  const auto load = ask<lease_renewal>(attention.actor, load_atom_v);
  EXPECT_EQ(load->engine.steps, steps);
  EXPECT_TRUE(load->engine.is_stalled());
  EXPECT_EQ(load_of(attention).at_experts, 0U);
  EXPECT_TRUE(ask<worker_hello>(attention.actor, caf::join_atom_v)->engine.is_stalled());
  attention.device->resume();
  finish_all();
  const auto after = ask<lease_renewal>(attention.actor, load_atom_v);
  EXPECT_GT(after->engine.steps, steps);
  EXPECT_EQ(after->engine.oldest_step_ms, 0U);
}

TEST_F(attention_worker_test, exit_while_busy_leaves_nothing_behind) {
  start();
  submit(attention, client, make_request(1, 5, 20));
  ASSERT_TRUE(run_until([&] { return of(1).output.tokens.size() == 2; }));
  caf::anon_send_exit(attention.actor, caf::exit_reason::user_shutdown);
  run();
  advance(30s); // results of running steps and expert batches have no receiver
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
  for (const std::uint64_t number : {1U, 2U}) {
    EXPECT_EQ(of(number).failure, ec::engine_failed);
    EXPECT_EQ(of(number).failure_text, "attention-0: out of memory");
  }
  results.clear();
  submit_expecting(make_request(3, 5, 20));
  finish_all();
}

TEST_F(attention_worker_test, logits_that_are_not_numbers_fail_their_sequence_and_no_other) {
  start();
  submit(attention, client, make_request(1, 5, 20));
  submit_expecting(make_request(2, 5, 20));
  ASSERT_TRUE(run_until([&] { return of(1).output.tokens.size() == 2; }));
  attention.engine->break_logits({{1}, 0});
  ASSERT_TRUE(run_until([&] { return of(1).finished; }));
  EXPECT_EQ(of(1).failure, ec::model_broken);
  EXPECT_EQ(of(1).output.tokens.size(), 2U);
  results.erase({{1}, 0});
  finish_all();
}

TEST_F(attention_worker_test, says_what_it_is_and_how_it_fares) {
  start();
  const auto hello = ask<worker_hello>(attention.actor, caf::join_atom_v);
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->address, attention.address);
  EXPECT_EQ(hello->fingerprint, "modelled");
  EXPECT_EQ(hello->layer_experts, model.shape.layer_experts);
  const auto terms = terms_of(attention);
  EXPECT_EQ(terms.kv_capacity_tokens, 1024U);
  EXPECT_EQ(terms.max_model_len, 96U);
  submit_expecting(make_request(1, 5, 4));
  ASSERT_TRUE(run_until([&] { return results.size() == 1; }));
  EXPECT_EQ(terms_of(attention).running.size(), 1U);
  const auto busy = ask<lease_renewal>(attention.actor, load_atom_v);
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->running, 1U);
  EXPECT_GT(load_of(attention).kv_tokens_used, 0U);
  finish_all();
}

TEST_F(attention_worker_test, counts_which_experts_it_uses) {
  start();
  const auto before = *ask<activation_counts_ptr>(attention.actor, caf::get_atom_v);
  EXPECT_EQ(num_rows(*before), 0U);
  EXPECT_EQ(shape_of(*before), model.shape.layer_experts);
  submit_expecting(make_request(1, 5, 4));
  finish_all();
  const auto counts = *ask<activation_counts_ptr>(attention.actor, caf::get_atom_v);
  EXPECT_EQ(counts->tokens, 8U) << "5 prompt tokens and 3 decoded ones";
  EXPECT_EQ(counts->micro_batches, 4U) << "one for the prompt, and one for each decoded token";
  for (const auto& layer : counts->rows)
    EXPECT_EQ(num_rows({0, 0, {layer}}), layer.empty() ? 0U : 8U * 2)
        << "two experts each, none in a dense layer";
  EXPECT_EQ(*counts, **ask<activation_counts_ptr>(attention.actor, caf::get_atom_v)) << "since the start";
}

} // namespace
} // namespace troupe
