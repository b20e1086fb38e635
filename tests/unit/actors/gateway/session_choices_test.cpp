// A session with more choices than get a place at the same time.
#include "tests/unit/actors/gateway/session_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class session_choices_test : public session_fixture {
 protected:
  static std::vector<std::uint32_t> choices_of(const worker_script& script) {
    std::vector<std::uint32_t> result;
    for (const auto& request : script.submitted)
      result.push_back(request.id.choice);
    return result;
  }

  void end_choice(std::uint32_t attempt, std::uint32_t choice, std::uint32_t from = 0) {
    tell(update(attempt, from, 2 - from, choice, finish_reason::stop));
  }
};

TEST_F(session_choices_test, run_as_many_as_have_a_place_and_the_next_as_these_end) {
  auto worker = add_worker(1);
  log->most_choices = 2;
  open(make_request(5));
  EXPECT_EQ(log->asked.at(0).num_choices, 5U);
  EXPECT_EQ(choices_of(*worker), (std::vector<std::uint32_t>{0, 1}));
  end_choice(0, 1);
  EXPECT_EQ(choices_of(*worker), (std::vector<std::uint32_t>{0, 1, 2}));
  end_choice(0, 0);
  end_choice(0, 2);
  EXPECT_EQ(choices_of(*worker), (std::vector<std::uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(worker->submitted[4].sampling, worker->submitted[0].sampling) << "the same seed, its own stream";
  EXPECT_FALSE(has_ended());
  end_choice(0, 3);
  end_choice(0, 4);
  EXPECT_TRUE(has_ended());
  EXPECT_EQ(log->asked.size(), 1U) << "the place was kept all the time";
  EXPECT_EQ(log->done, (std::vector<request_id>{{7}}));
  for (std::uint32_t choice = 0; choice < 5; ++choice)
    EXPECT_EQ(listener->choices[choice].tokens, expected_tokens(2, choice));
}

TEST_F(session_choices_test, a_replay_starts_with_the_unfinished_and_with_the_new_places_room) {
  auto first = add_worker(1);
  log->most_choices = 2;
  open(make_request(5));
  end_choice(0, 0);
  tell(update(0, 0, 1, 1));
  ASSERT_EQ(choices_of(*first), (std::vector<std::uint32_t>{0, 1, 2}));
  auto second = add_worker(2);
  log->most_choices = 3;
  fail_sequence(0, ec::engine_failed, 2);
  advance(1ms);
  ASSERT_EQ(log->asked.size(), 2U);
  EXPECT_EQ(log->asked[1].num_choices, 4U);
  EXPECT_EQ(first->cancelled,
            (std::vector<std::pair<sequence_id, std::uint32_t>>{{{{7}, 1}, 0}, {{{7}, 2}, 0}}))
      << "those behind were not there";
  EXPECT_EQ(choices_of(*second), (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_EQ(second->submitted[0].emitted, expected_tokens(1, 1));
  end_choice(1, 1, 1);
  end_choice(1, 2);
  EXPECT_EQ(choices_of(*second), (std::vector<std::uint32_t>{1, 2, 3, 4}));
  end_choice(1, 3);
  end_choice(1, 4);
  EXPECT_TRUE(has_ended());
  for (std::uint32_t choice = 0; choice < 5; ++choice)
    EXPECT_EQ(listener->choices[choice].tokens, expected_tokens(2, choice));
}

TEST_F(session_choices_test, a_choice_that_is_stopped_makes_room_wherever_it_is) {
  auto worker = add_worker(1);
  log->most_choices = 1;
  open(make_request(4));
  tell(stop_atom_v, std::uint32_t{2});
  EXPECT_EQ(choices_of(*worker), (std::vector<std::uint32_t>{0}));
  EXPECT_TRUE(worker->cancelled.empty()) << "it was not there";
  tell(stop_atom_v, std::uint32_t{0});
  EXPECT_EQ(choices_of(*worker), (std::vector<std::uint32_t>{0, 1}));
  end_choice(0, 1);
  EXPECT_EQ(choices_of(*worker), (std::vector<std::uint32_t>{0, 1, 3}));
  end_choice(0, 3);
  EXPECT_TRUE(has_ended());
}

TEST_F(session_choices_test, a_second_place_may_have_less_room) {
  add_worker(1);
  log->most_choices = 3;
  open(make_request(4));
  auto second = add_worker(2);
  log->most_choices = 1;
  fail_sequence(0, ec::engine_failed, 1);
  advance(1ms);
  EXPECT_EQ(choices_of(*second), (std::vector<std::uint32_t>{0}));
  for (std::uint32_t choice = 0; choice < 4; ++choice)
    end_choice(1, choice);
  EXPECT_EQ(choices_of(*second), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_TRUE(has_ended());
}

TEST_F(session_choices_test, a_choice_that_is_stopped_between_two_places_asks_for_none) {
  auto first = add_worker(1);
  log->most_choices = 2;
  open(make_request(3));
  ASSERT_EQ(choices_of(*first), (std::vector<std::uint32_t>{0, 1}));
  auto second = add_worker(2);
  fail_sequence(0, ec::engine_failed, 1);
  const auto cancelled = first->cancelled.size();
  tell(stop_atom_v, std::uint32_t{1}); // the session waits before it asks for another place
  EXPECT_EQ(first->cancelled.size(), cancelled) << "there is no worker to tell";
  EXPECT_TRUE(second->submitted.empty());
  advance(1ms);
  EXPECT_EQ(log->asked.at(1).num_choices, 2U);
  EXPECT_EQ(choices_of(*second), (std::vector<std::uint32_t>{0, 2}));
  end_choice(1, 0);
  end_choice(1, 2);
  EXPECT_TRUE(has_ended());
}

TEST_F(session_choices_test, logprobs_of_the_prompt_are_asked_for_until_they_are_here) {
  auto worker = add_worker(1);
  log->most_choices = 1;
  auto request = make_request(2);
  request.sampling.prompt_logprobs = 1;
  open(request);
  ASSERT_EQ(worker->submitted.size(), 1U);
  EXPECT_EQ(worker->submitted[0].sampling.prompt_logprobs, 1);
  auto whole = update(0, 0, 2, 0, finish_reason::stop);
  whole.prompt_logprobs = {{.token = 2, .logprob = -1.0F, .rank = 1, .top = {}}};
  tell(whole);
  ASSERT_EQ(worker->submitted.size(), 2U);
  EXPECT_EQ(worker->submitted[1].sampling.prompt_logprobs, -1) << "the client has them";
  end_choice(0, 1);
  EXPECT_TRUE(has_ended());
  EXPECT_EQ(listener->prompt_logprobs.size(), 1U);
}

TEST_F(session_choices_test, an_open_ended_request_says_how_few_tokens_will_do) {
  add_worker(1);
  auto request = make_request(2);
  request.open_ended = true;
  open(request);
  EXPECT_EQ(log->asked.at(0).max_new_tokens, 8U);
  EXPECT_EQ(log->asked.at(0).min_new_tokens, 1U);
  tell(update(0, 0, 3, 1));
  fail_sequence(0, ec::engine_failed);
  advance(1ms);
  EXPECT_EQ(log->asked.at(1).min_new_tokens, 4U) << "one more than its longest choice has";
}

TEST_F(session_choices_test, others_need_all_their_tokens) {
  add_worker(1);
  open(make_request());
  EXPECT_EQ(log->asked.at(0).min_new_tokens, 0U);
}

} // namespace
} // namespace troupe
