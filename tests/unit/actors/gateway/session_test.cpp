// A session while it runs: tokens, failures of workers, replays.
#include <random>

#include "actors/protocol/defaults.hpp"
#include "tests/unit/actors/gateway/session_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

using session_test = session_fixture;

TEST_F(session_test, submits_streams_and_ends) {
  auto worker = add_worker(1);
  open(make_request(2));
  ASSERT_EQ(log->asked.size(), 1U);
  EXPECT_EQ(log->asked[0].prompt_tokens, 3U);
  EXPECT_EQ(log->asked[0].max_new_tokens, 8U);
  EXPECT_EQ(log->asked[0].num_choices, 2U);
  ASSERT_EQ(worker->submitted.size(), 2U);
  EXPECT_EQ(worker->submitted[1].id.choice, 1U);
  EXPECT_EQ(worker->submitted[1].prompt, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(worker->submitted[1].sampling.seed, 5U);
  tell(update(0, 0, 3));
  tell(update(0, 0, 2, 1, finish_reason::stop));
  EXPECT_FALSE(has_ended());
  tell(update(0, 3, 5, 0, finish_reason::length));
  EXPECT_EQ(listener->choices[0].tokens, expected_tokens(8));
  EXPECT_EQ(listener->choices[0].finish, finish_reason::length);
  EXPECT_EQ(listener->choices[1].tokens, expected_tokens(2, 1));
  EXPECT_EQ(listener->choices[1].finish, finish_reason::stop);
  EXPECT_EQ(log->done, (std::vector<request_id>{{7}}));
  EXPECT_EQ(log->answered, std::vector<std::uint32_t>{5}) << "of 8 and 2 tokens";
  EXPECT_TRUE(has_ended());
  EXPECT_EQ(listener->calls_after_end, 0U);
}

TEST_F(session_test, says_that_it_follows) {
  add_worker(1);
  auto request = make_request(1);
  request.follows = true;
  open(request);
  ASSERT_EQ(log->asked.size(), 1U);
  EXPECT_TRUE(log->asked[0].follows);
}

TEST_F(session_test, an_answer_goes_on_in_the_same_numerics_only) {
  log->numerics = "cpu/r1 cpu/r1";
  add_worker(1);
  open(make_request(1));
  log->numerics = "cpu/r2 cpu/r2"; // nothing has been said yet: any will do
  fail_sequence(0, ec::engine_failed);
  advance(1s);
  ASSERT_TRUE(listener->errors.empty());
  tell(update(1, 0, 3));
  fail_sequence(1, ec::engine_failed);
  advance(1s);
  ASSERT_TRUE(listener->errors.empty()) << "the same as before";
  log->numerics = "cpu/r3 cpu/r3";
  fail_sequence(2, ec::engine_failed);
  advance(1s);
  ASSERT_EQ(listener->errors.size(), 1U);
  EXPECT_EQ(code_of(listener->errors[0]), ec::incompatible);
  EXPECT_NE(text_of(listener->errors[0]).find("cpu/r3"), std::string::npos);
  EXPECT_EQ(log->done.size(), 4U) << "the last place is given back too";
  EXPECT_TRUE(has_ended());
}

TEST_F(session_test, says_whose_it_is) {
  add_worker(1);
  add_worker(2);
  auto request = make_request(1);
  request.tenant = "alice";
  request.weight = 3;
  log->answers = false;
  open(request);
  ASSERT_EQ(log->asked.size(), 1U);
  EXPECT_EQ(log->asked[0].tenant, "alice");
  EXPECT_EQ(log->asked[0].weight, 3U);
  EXPECT_EQ(listener->num_placed, 0U) << "it waits";
}

TEST_F(session_test, a_replay_is_no_second_placing) {
  add_worker(1);
  add_worker(2);
  open(make_request());
  EXPECT_EQ(listener->num_placed, 1U);
  fail_sequence(0, ec::overloaded);
  advance(1ms);
  ASSERT_EQ(log->asked.size(), 2U);
  EXPECT_EQ(listener->num_placed, 1U);
}

TEST_F(session_test, drops_duplicates_and_older_attempts) {
  auto worker = add_worker(1);
  add_worker(2);
  open(make_request());
  tell(update(0, 0, 3));
  tell(update(0, 0, 3));
  tell(update(0, 2, 2));
  EXPECT_EQ(listener->choices[0].tokens, expected_tokens(4));
  fail_sequence(0, ec::overloaded);
  advance(1ms);
  tell(update(0, 4, 1));
  EXPECT_EQ(listener->choices[0].tokens, expected_tokens(4)) << "of attempt 0, which is over";
  tell(update(1, 4, 1));
  EXPECT_EQ(listener->choices[0].tokens, expected_tokens(5));
  auto foreign = update(1, 5, 1);
  foreign.id.request = {8};
  tell(foreign);
  foreign.id = {{7}, 3};
  tell(foreign);
  fail_sequence(0, ec::bad_request);
  EXPECT_EQ(listener->choices.size(), 1U);
  EXPECT_TRUE(listener->errors.empty());
}

TEST_F(session_test, replays_elsewhere_when_the_worker_dies) {
  auto first = add_worker(1);
  auto second = add_worker(2);
  open(make_request());
  tell(update(0, 0, 3));
  kill(workers[1]);
  advance(1ms);
  ASSERT_EQ(second->submitted.size(), 1U);
  EXPECT_EQ(second->submitted[0].attempt, 1U);
  EXPECT_EQ(second->submitted[0].emitted, expected_tokens(3));
  EXPECT_EQ(log->asked[1].avoid, (std::vector<worker_id>{{1}}));
  EXPECT_EQ(log->asked[1].attempt, 1U);
  EXPECT_EQ(log->done.size(), 1U) << "the old place is given back";
  tell(update(1, 3, 5, 0, finish_reason::length));
  EXPECT_EQ(listener->choices[0].tokens, expected_tokens(8));
  EXPECT_TRUE(has_ended());
}

TEST_F(session_test, tells_each_step_under_the_requests_name) {
  add_worker(1);
  auto second = add_worker(2);
  auto request = make_request();
  request.context = {"my-id", "trace"};
  std::vector<std::string> told;
  request.log = [&told](const request_event& step) {
    told.push_back(step.request.id + " " + step.name + " " + step.text);
  };
  open(request);
  EXPECT_EQ(log->asked[0].context, request.context);
  tell(update(0, 0, 3));
  kill(workers[1]);
  advance(1ms);
  ASSERT_EQ(second->submitted.size(), 1U);
  EXPECT_EQ(second->submitted[0].context, request.context);
  tell(update(1, 3, 5, 0, finish_reason::length));
  ASSERT_EQ(told.size(), 4U);
  EXPECT_EQ(told[0].substr(0, 23), "my-id request-accepted ");
  EXPECT_EQ(told[1].substr(0, 24), "my-id request-placed on ");
  EXPECT_EQ(told[2].substr(0, 28), "my-id request-replayed from ");
  EXPECT_NE(told[2].find("with 3 tokens of the answer: the attention worker has died"), std::string::npos)
      << told[2];
  EXPECT_EQ(told[3].substr(0, 23), "my-id request-finished ");
}

TEST_F(session_test, a_refusal_is_told_with_its_reason) {
  auto request = make_request();
  request.context = {"my-id", ""};
  std::vector<std::string> told;
  request.log = [&told](const request_event& step) { told.push_back(step.name + (": " + step.text)); };
  log->refusal = make_error(ec::overloaded, "full");
  open(request);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back(), "request-refused: full");
}

TEST_F(session_test, a_stop_token_counts_once_and_ends_its_choice_for_good) {
  auto first = add_worker(1);
  auto second = add_worker(2);
  open(make_request(2));
  tell(update(0, 0, 3));
  tell(update(0, 0, 1, 1));
  tell(update(0, 0, 3, 1, finish_reason::stop)); // the first one again, and the stop token behind the second
  tell(update(0, 2, 1, 1, finish_reason::stop));
  EXPECT_EQ(listener->choices[1].tokens, expected_tokens(3, 1));
  EXPECT_EQ(listener->choices[1].finish, finish_reason::stop);
  kill(workers[1]);
  advance(1ms);
  ASSERT_EQ(second->submitted.size(), 1U);
  EXPECT_EQ(second->submitted[0].id.choice, 0U);
  tell(update(1, 0, 3, 1, finish_reason::stop));
  tell(update(1, 2, 2, 0, finish_reason::stop));
  EXPECT_EQ(listener->choices[0].tokens, expected_tokens(4));
  EXPECT_EQ(listener->choices[1].tokens, expected_tokens(3, 1));
  EXPECT_TRUE(has_ended());
  EXPECT_EQ(listener->calls_after_end, 0U);
}

TEST_F(session_test, replays_what_another_worker_can_help_with) {
  for (auto code : {ec::peer_down, ec::overloaded, ec::not_ready, ec::engine_failed, ec::shutting_down}) {
    scripts.clear();
    auto first = add_worker(1);
    auto second = add_worker(2);
    open(make_request(2));
    tell(update(0, 0, 8, 1, finish_reason::length));
    fail_sequence(0, code);
    advance(1ms);
    ASSERT_EQ(second->submitted.size(), 1U) << to_string(code) << ": only what is not finished";
    tell(update(1, 0, 8, 0, finish_reason::length));
    EXPECT_TRUE(has_ended());
    EXPECT_TRUE(listener->errors.empty());
    for (auto& [id, worker] : workers)
      kill(worker);
  }
}

TEST_F(session_test, other_failures_are_the_clients) {
  for (auto code : {ec::bad_request, ec::context_exceeded, ec::deadline_exceeded, ec::cancelled,
                    ec::incompatible, ec::not_hosted, ec::stale_term}) {
    auto worker = add_worker(1);
    open(make_request(2));
    fail_sequence(0, code);
    ASSERT_EQ(listener->errors.size(), 1U);
    EXPECT_EQ(code_of(listener->errors[0]), code);
    EXPECT_EQ(worker->cancelled.size(), 2U) << "nothing runs on";
    EXPECT_TRUE(has_ended());
    kill(workers[1]);
  }
}

TEST_F(session_test, a_gap_is_never_passed_on) {
  add_worker(1);
  auto second = add_worker(2);
  open(make_request());
  tell(update(0, 0, 2));
  tell(update(0, 3, 1));
  advance(1ms);
  ASSERT_EQ(second->submitted.size(), 1U);
  EXPECT_EQ(second->submitted[0].emitted, expected_tokens(2));
}

TEST_F(session_test, gives_up_after_so_many_attempts) {
  auto worker = add_worker(1);
  open(make_request());
  for (std::uint32_t attempt = 0; attempt < defaults::max_attempts; ++attempt) {
    ASSERT_EQ(worker->submitted.size(), attempt + 1);
    fail_sequence(attempt, ec::engine_failed);
    advance(defaults::reconnect_max);
  }
  ASSERT_EQ(listener->errors.size(), 1U);
  EXPECT_EQ(code_of(listener->errors[0]), ec::engine_failed);
  EXPECT_TRUE(has_ended());
}

TEST_F(session_test, finishes_by_itself_when_only_the_last_word_was_lost) {
  add_worker(1);
  open(make_request());
  tell(update(0, 0, 8));
  kill(workers[1]);
  EXPECT_EQ(listener->choices[0].finish, finish_reason::length);
  EXPECT_TRUE(has_ended());
}

TEST_F(session_test, a_worker_that_cannot_be_found_is_replayed_elsewhere) {
  log->workers[1] = nullptr;
  auto second = add_worker(2);
  open(make_request());
  advance(1ms);
  ASSERT_EQ(second->submitted.size(), 1U);
  EXPECT_EQ(second->submitted[0].attempt, 1U);
}

TEST_F(session_test, a_worker_declared_dead_is_left_and_told) {
  auto first = add_worker(1);
  auto second = add_worker(2);
  open(make_request());
  tell(fence_atom_v, worker_id{9});
  EXPECT_TRUE(first->cancelled.empty());
  tell(fence_atom_v, worker_id{1});
  advance(1ms);
  EXPECT_EQ(second->submitted.size(), 1U);
  ASSERT_EQ(first->cancelled.size(), 1U) << "it may still be there";
  EXPECT_EQ(first->cancelled[0].second, 0U);
}

TEST_F(session_test, a_silent_worker_is_left_in_the_end) {
  add_worker(1);
  auto second = add_worker(2);
  open(make_request());
  advance(defaults::token_wait - 2s);
  EXPECT_TRUE(second->submitted.empty());
  advance(4s);
  EXPECT_EQ(second->submitted.size(), 1U);
}

TEST_F(session_test, tells_the_gateway_that_it_hears_nothing_until_it_does) {
  add_worker(1);
  open(make_request());
  advance(defaults::engine_stall + 100ms);
  EXPECT_TRUE(log->silences.empty());
  advance(2s);
  EXPECT_EQ(log->silences, (std::vector<std::uint64_t>{11'000, 12'000}));
  tell(update(0, 0, 0)); // it gets on
  advance(defaults::engine_stall - 1s);
  EXPECT_EQ(log->silences.size(), 2U);
  advance(3s);
  EXPECT_EQ(log->silences.size(), 4U);
}

TEST_F(session_test, a_worker_that_gets_on_is_not_silent) {
  add_worker(1);
  auto second = add_worker(2);
  auto request = make_request();
  request.sampling.prompt_logprobs = 1;
  open(request);
  for (int i = 0; i < 3; ++i) {
    advance(defaults::token_wait - 2s);
    tell(update(0, 0, 0)); // a long prefill
  }
  EXPECT_TRUE(second->submitted.empty());
  EXPECT_TRUE(listener->prompt_logprobs.empty()) << "they come with the first token";
  auto first = update(0, 0, 1);
  first.prompt_logprobs = {{.token = 2, .logprob = -1.0F, .rank = 1, .top = {}}};
  tell(first);
  EXPECT_EQ(listener->prompt_logprobs.size(), 1U);
}

TEST_F(session_test, prompt_logprobs_come_once_and_first) {
  add_worker(1);
  auto second = add_worker(2);
  auto request = make_request(2);
  request.sampling.prompt_logprobs = 1;
  open(request);
  auto first = update(0, 0, 1, 1);
  first.prompt_logprobs = {{.token = 2, .logprob = -1.0F, .rank = 1, .top = {}}};
  tell(first);
  auto other = update(0, 0, 1);
  other.prompt_logprobs = first.prompt_logprobs;
  tell(other);
  ASSERT_EQ(listener->prompt_logprobs.size(), 1U);
  EXPECT_EQ(listener->prompt_logprobs[0], first.prompt_logprobs);
  kill(workers[1]);
  advance(1ms);
  ASSERT_EQ(second->submitted.size(), 2U);
  EXPECT_EQ(second->submitted[0].sampling.prompt_logprobs, -1) << "the client has them";
}

/// Whatever a worker does before it dies, the client gets every token once and in order.
TEST_F(session_test, property_no_token_is_lost_doubled_or_reordered) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    const auto below = [&random](std::uint32_t bound) {
      return static_cast<std::uint32_t>(random() % bound);
    };
    const auto num_choices = 1 + below(3);
    const auto length = 1 + below(20);
    for (std::uint64_t id : {1U, 2U, 3U})
      add_worker(id);
    open(make_request(num_choices, static_cast<std::int32_t>(length)));
    std::uint32_t attempt = 0;
    for (std::uint32_t step = 0; step < 500 && !listener->is_over(); ++step) {
      const auto choice = below(num_choices);
      const auto has = static_cast<std::uint32_t>(listener->choices[choice].tokens.size());
      if (below(12) == 0 && attempt + 2 < defaults::max_attempts) {
        if (below(2) == 0) {
          const auto victim = log->asked.back().avoid.size() < 3 ? scripts.size() - 1 : 0;
          fail_sequence(attempt, below(2) == 0 ? ec::engine_failed : ec::peer_down,
                        static_cast<std::uint32_t>(victim) % num_choices);
        } else {
          tell(fence_atom_v, worker_id{1});
          tell(fence_atom_v, worker_id{2});
          tell(fence_atom_v, worker_id{3});
        }
        advance(defaults::reconnect_max);
        attempt = log->asked.back().attempt;
      } else if (below(6) == 0) {
        const auto from = below(has + 1); // stale or overlapping
        tell(update(below(attempt + 1), from, std::min(length - from, 1 + below(length)), choice));
      } else {
        const auto from = has - std::min(has, below(3));
        const auto count = std::min(length - from, 1 + below(4));
        const auto finish = from + count == length ? finish_reason::length : finish_reason::none;
        tell(update(attempt, from, count, choice, finish));
      }
    }
    EXPECT_TRUE(listener->errors.empty());
    for (std::uint32_t choice = 0; choice < num_choices; ++choice) {
      const auto& tokens = listener->choices[choice].tokens;
      EXPECT_EQ(tokens, expected_tokens(tokens.size(), choice)) << "choice " << choice;
      EXPECT_EQ(tokens.size(), length);
    }
    EXPECT_EQ(listener->calls_after_end, 0U);
    EXPECT_TRUE(has_ended());
    for (auto& script : scripts)
      script->sessions.clear();
    for (auto& [id, worker] : workers)
      kill(worker);
  }
}

} // namespace
} // namespace troupe
