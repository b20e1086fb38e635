// The output of an attention worker: the model's tokens, whatever shares its batches and its cache.
#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <set>
#include <tuple>

#include "tests/unit/actors/attention/attention_worker_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// A request with random values in all fields, from a seeded generator.
generation_request random_request(std::mt19937& random, const serving_system& cluster, std::uint64_t number) {
  const auto draw = [&](std::int32_t low, std::int32_t high) {
    return std::uniform_int_distribution{low, high}(random);
  };
  auto result = cluster.make_request(number, static_cast<std::uint32_t>(draw(1, 40)), draw(1, 24));
  result.id.choice = static_cast<std::uint32_t>(draw(0, 3));
  result.priority = draw(-1, 1);
  auto& sampling = result.sampling;
  sampling.temperature = draw(0, 1) == 0 ? 0.0F : 0.8F;
  sampling.num_logprobs = draw(-1, 3);
  sampling.prompt_logprobs = draw(0, 4) == 0 ? draw(0, 2) : -1;
  sampling.min_tokens = draw(0, 4);
  for (std::int32_t stop = 0; stop < draw(0, 60); ++stop)
    sampling.stop_token_ids.push_back(draw(0, 996));
  return result;
}

TEST_F(attention_worker_test, gives_the_tokens_of_the_model) {
  start();
  submit_expecting(make_request(1, 5, 8));
  finish_all();
  EXPECT_EQ(results.begin()->second.output.tokens.size(), 8U);
}

TEST_F(attention_worker_test, an_iteration_counts_a_prompt_once_with_its_first_token) {
  attention_worker_config config;
  config.max_num_batched_tokens = 4; // the prompt takes several
  start(config);
  const auto request = make_request(1, 13, 8);
  submit_expecting(request);
  finish_all();
  EXPECT_GT(attention.metrics->iterations, 8U);
  EXPECT_EQ(attention.metrics->iteration_tokens, 13U + 8U);
}

TEST_F(attention_worker_test, hundreds_of_random_requests_get_what_each_gets_alone) {
  std::mt19937 random{20260801};
  attention_worker_config config;
  config.max_num_seqs = 24;
  config.max_num_batched_tokens = 64;
  config.max_waiting = 1000;
  config.max_micro_batches = 3;
  start(config);
  for (std::uint64_t number = 1; number <= 300; ++number) {
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
    simulated_attention_engine::config settings;
    settings.block_tokens = block;
    settings.num_blocks = blocks;
    if (number == 0)
      start(config, settings);
    else
      attention = add_worker("attention-" + std::to_string(number), config, settings);
    publish(attention);
    results.clear();
    std::mt19937 random{5};
    for (std::uint64_t request = 1; request <= 40; ++request)
      submit_expecting(random_request(random, *this, request));
    finish_all();
    ++number;
  }
}

TEST_F(attention_worker_test, choices_prefill_their_prompt_once) {
  start();
  auto request = make_request(1, 30, 6);
  for (std::uint32_t choice = 0; choice < 4; ++choice) {
    request.id.choice = choice;
    submit_expecting(request);
  }
  finish_all();
  // Seven blocks of 4 are shared; the two tokens after them and five new ones belong to each choice alone.
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

TEST_F(attention_worker_test, the_next_turn_of_a_chat_computes_what_is_new) {
  start();
  submit_expecting(make_request(1, 18, 9));
  finish_all();
  ASSERT_EQ(attention.metrics->prefix_hits, 0U);
  auto turn = make_request(1, 18, 5);
  turn.id.request = {2};
  for (const auto& token : of(1).output.tokens)
    turn.prompt.push_back(token.token);
  turn.prompt.insert(turn.prompt.end(), {5, 6, 7});
  const auto before = attention.metrics->rows;
  submit_expecting(turn);
  finish_all();
  // The last of 27 tokens was never an input; of 26 computed ones six blocks of 4 are full.
  EXPECT_EQ(attention.metrics->prefix_hits, 24U);
  EXPECT_EQ(attention.metrics->prefix_queries, 18U + 30U);
  EXPECT_EQ(attention.metrics->rows - before, 6U + 4U);
  turn.id.request = {3};
  turn.cache_salt = "mine";
  submit_expecting(turn);
  finish_all();
  EXPECT_EQ(attention.metrics->prefix_hits, 24U) << "another salt shares nothing";
}

TEST_F(attention_worker_test, without_prefix_caching_only_the_choices_of_a_request_share) {
  attention_worker_config config;
  config.prefix_caching = false;
  start(config);
  auto request = make_request(1, 30, 6);
  submit_expecting(request);
  request.id.choice = 1;
  submit_expecting(request);
  finish_all();
  EXPECT_EQ(attention.metrics->prefix_hits, 28U);
  EXPECT_EQ(status_of(attention).kv_blocks_retained, 0U);
  request.id = {{2}, 0};
  submit_expecting(request);
  finish_all();
  EXPECT_EQ(attention.metrics->prefix_hits, 28U);
  EXPECT_TRUE(load_of(attention).prefixes.empty());
}

TEST_F(attention_worker_test, the_renewal_names_the_landmarks_that_the_worker_has) {
  start();
  EXPECT_TRUE(load_of(attention).prefixes.empty());
  const auto request = make_request(1, 30, 6);
  submit_expecting(request);
  finish_all();
  prefix_chain chain{"", 4};
  chain.extend(request.prompt);
  std::set<std::uint64_t> expected_hashes;
  for (const auto& landmark : landmarks_of(chain))
    expected_hashes.insert(landmark.hash);
  ASSERT_EQ(expected_hashes.size(), 4U) << "16, 20, 24 and 28 tokens";
  const auto reported = load_of(attention).prefixes;
  for (const auto hash : expected_hashes)
    EXPECT_EQ(std::count(reported.begin(), reported.end(), hash), 1);
}

TEST_F(attention_worker_test, preempts_when_the_cache_is_full_and_nobody_notices) {
  simulated_attention_engine::config settings;
  settings.num_blocks = 26; // of 4 tokens: two sequences of full length, or many short ones
  attention_worker_config config;
  config.max_num_seqs = 16;
  start(config, settings);
  for (std::uint64_t number = 1; number <= 24; ++number) {
    auto request = make_request(number, static_cast<std::uint32_t>(3 + number % 9), 30);
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

TEST_F(attention_worker_test, prompt_logprobs_of_a_prefill_that_gave_way_come_once) {
  attention_worker_config config;
  config.max_num_batched_tokens = 4;
  simulated_attention_engine::config settings;
  settings.block_tokens = 16;
  settings.num_blocks = 6;
  start(config, settings);
  submit_expecting(make_request(1, 16, 40));
  ASSERT_TRUE(run_until([&] { return of(1).output.tokens.size() >= 3; }));
  auto request = make_request(2, 60, 3); // four blocks, and twenty chunks
  request.sampling.prompt_logprobs = 1;
  submit_expecting(request);
  finish_all();
  EXPECT_GE(attention.metrics->preemptions, 1U) << "the first needs a third block in the middle of them";
}

TEST_F(attention_worker_test, stops_at_the_context) {
  start();
  submit_expecting(make_request(1, 90, 50));
  finish_all();
  EXPECT_EQ(results.begin()->second.output.tokens.size(), 6U);
  EXPECT_EQ(results.begin()->second.output.finish, finish_reason::length);
}

TEST_F(attention_worker_test, a_sequence_that_can_never_fit_is_refused) {
  simulated_attention_engine::config settings;
  settings.num_blocks = 10; // 40 positions
  start({}, settings);
  submit(attention, client, make_request(1, 40, 1));
  run();
  EXPECT_EQ(of(1).failure, ec::context_exceeded);
  EXPECT_NE(of(1).failure_text.find("40 positions"), std::string::npos);
  submit(attention, client, make_request(2, 39, 5));
  ASSERT_TRUE(run_until([&] { return of(2).finished; }));
  EXPECT_EQ(of(2).output.tokens.size(), 1U);
  EXPECT_EQ(terms_of(attention).max_model_len, 40U);
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
  for (std::uint64_t number = 1; number <= 8; ++number)
    submit(attention, client, make_request(number, 2, 3));
  ASSERT_TRUE(run_until([&] { return all_finished(results, 8); }));
  std::uint64_t refused = 0;
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

TEST_F(attention_worker_test, the_stop_token_is_the_last_token_and_has_its_logprobs) {
  start();
  auto request = make_request(1, 7, 40);
  const auto free = expected(request).tokens;
  request.sampling.num_logprobs = 2;
  request.sampling.stop_token_ids = {free[3].token};
  submit(attention, client, request);
  ASSERT_TRUE(run_until([&] { return of(1).finished; }));
  const auto& got = of(1).output;
  EXPECT_EQ(got.finish, finish_reason::stop);
  ASSERT_EQ(got.tokens.size(), 4U);
  EXPECT_EQ(got.tokens.back().token, free[3].token);
  EXPECT_EQ(got.tokens.back().top.size(), 2U);
  EXPECT_EQ(got, expected(request));
}

TEST_F(attention_worker_test, priority_goes_before_arrival) {
  attention_worker_config config;
  config.max_num_seqs = 1;
  start(config);
  std::vector<std::uint64_t> order;
  for (std::uint64_t number = 1; number <= 4; ++number) {
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
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 4, 2, 3}));
  finish_all();
}

} // namespace
} // namespace troupe
