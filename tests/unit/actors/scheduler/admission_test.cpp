// What fits where, and what may wait: workers of different sizes, requests wider or longer than they hold.
#include <gtest/gtest.h>

#include "actors/scheduler/admission_policy.hpp"
#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// A worker with `kv_tokens`, which is also its longest sequence.
worker_hello seats_of(std::uint64_t id, std::uint32_t kv_tokens, std::uint32_t max_num_seqs = 4) {
  auto hello = attention_hello(id);
  hello.of_role = attention_terms{
      .max_num_seqs = max_num_seqs, .kv_capacity_tokens = kv_tokens, .max_model_len = kv_tokens};
  return hello;
}

/// A request without a client's bound on new tokens.
admission_request open_ended(std::uint64_t id, std::uint32_t prompt_tokens, std::uint32_t max_new_tokens) {
  auto request = request_of(id, prompt_tokens, max_new_tokens);
  request.min_new_tokens = 1;
  return request;
}

std::vector<std::uint64_t> placed_on(const std::vector<admission_policy::placed>& places) {
  std::vector<std::uint64_t> result;
  for (const auto& place : places)
    result.push_back(place.worker.value);
  return result;
}

TEST(admission_policy, more_choices_than_a_worker_holds_get_a_place_for_as_many_as_it_does) {
  admission_policy policy{{}};
  policy.add_worker(seats_of(1, 1000));
  auto by_seats = request_of(1, 10, 10);
  by_seats.num_choices = 100;
  EXPECT_FALSE(policy.enqueue(by_seats, {}));
  auto places = policy.place({});
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].num_choices, 4U);
  policy.release({1});
  auto by_cache = request_of(2, 300, 100);
  by_cache.num_choices = 3;
  EXPECT_FALSE(policy.enqueue(by_cache, {}));
  places = policy.place({});
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].num_choices, 2U) << "two of 400 tokens fit in 1000";
  EXPECT_EQ(places[0].kv_tokens, 800U);
  EXPECT_EQ(policy.budget({1})->kv_tokens, 800U);
}

TEST(admission_policy, choices_stay_together_where_a_worker_holds_them) {
  admission_policy policy{{}};
  policy.add_worker(seats_of(1, 1000));
  policy.add_worker(seats_of(2, 1000, 2));
  ASSERT_FALSE(policy.enqueue(request_of(1), {}));
  ASSERT_EQ(placed_on(policy.place({})), std::vector<std::uint64_t>{1});
  auto wide = request_of(2);
  wide.num_choices = 4;
  EXPECT_FALSE(policy.enqueue(wide, {}));
  EXPECT_TRUE(policy.place({}).empty()) << "the other has two seats free, and four will come";
  policy.release({1});
  const auto places = policy.place({});
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].worker.value, 1U);
  EXPECT_EQ(places[0].num_choices, 4U);
}

TEST(admission_policy, the_choices_that_fit_are_those_of_the_workers_that_are_left) {
  admission_policy policy{{}};
  policy.add_worker(seats_of(1, 1000));
  policy.add_worker(seats_of(2, 300));
  auto wide = request_of(1, 100, 100);
  wide.num_choices = 4;
  ASSERT_FALSE(policy.enqueue(wide, {}));
  policy.remove_worker({1});
  const auto places = policy.place({});
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].worker.value, 2U);
  EXPECT_EQ(places[0].num_choices, 1U);
}

TEST(admission_policy, an_open_ended_request_takes_what_fits) {
  admission_policy policy{{}};
  policy.add_worker(seats_of(1, 1000));
  EXPECT_EQ(code_of(policy.enqueue(request_of(1, 100, 1'000'000), {})), ec::context_exceeded);
  EXPECT_FALSE(policy.enqueue(open_ended(2, 100, 1'000'000), {})) << "planned before a worker had joined";
  EXPECT_EQ(policy.place({}).size(), 1U);
  EXPECT_EQ(policy.budget({1})->kv_tokens, 1000U);
  EXPECT_EQ(text_of(policy.enqueue(open_ended(3, 1000, 1'000'000), {})),
            "prompt and new tokens need 1001 positions, the longest context here has 1000");
}

TEST(admission_policy, an_open_ended_request_reserves_what_answers_usually_take) {
  admission_policy policy{{}};
  policy.add_worker(seats_of(1, 100'000));
  for (std::uint64_t id = 1; id <= 4; ++id)
    EXPECT_FALSE(policy.enqueue(open_ended(id, 100, 99'900), {}));
  EXPECT_EQ(policy.place({}).size(), 4U) << "each may have the whole context, and they run side by side";
  EXPECT_EQ(policy.budget({1})->kv_tokens, 4 * (100U + defaults::expected_new_tokens));
}

TEST(admission_policy, an_open_ended_request_waits_for_the_longest_context_and_takes_less_when_that_dies) {
  admission_policy policy{{}};
  policy.add_worker(seats_of(1, 1000, 1));
  policy.add_worker(seats_of(2, 500));
  EXPECT_EQ(policy.longest_context(), 1000U);
  ASSERT_FALSE(policy.enqueue(open_ended(1, 10, 990), {}));
  ASSERT_EQ(placed_on(policy.place({})), std::vector<std::uint64_t>{1});
  ASSERT_FALSE(policy.enqueue(open_ended(2, 10, 990), {}));
  EXPECT_TRUE(policy.place({}).empty()) << "its answer is as long as everybody's";
  policy.remove_worker({1});
  EXPECT_EQ(policy.longest_context(), 500U);
  EXPECT_EQ(placed_on(policy.place({})), std::vector<std::uint64_t>{2});
  auto replay = open_ended(1, 10, 990);
  replay.attempt = 1;
  replay.min_new_tokens = 200; // 199 are said
  ASSERT_FALSE(policy.enqueue(replay, {}));
  policy.release({2});
  EXPECT_EQ(placed_on(policy.place({})), std::vector<std::uint64_t>{2});
  policy.remove_worker({2});
  EXPECT_EQ(policy.longest_context(), 0U);
}

TEST(admission_policy, a_leaving_worker_is_no_longest_context) {
  admission_policy policy{{}};
  policy.add_worker(seats_of(1, 1000));
  policy.add_worker(seats_of(2, 500));
  policy.retire_worker({1});
  EXPECT_EQ(policy.longest_context(), 500U);
}

TEST(admission_policy, the_queue_is_bounded_by_its_bytes_and_says_which_flag) {
  admission_policy policy{{.bytes = 10'000}};
  ASSERT_FALSE(policy.enqueue(request_of(1, 100'000), {})) << "one alone is always taken";
  const auto full = policy.enqueue(request_of(2), {});
  EXPECT_EQ(code_of(full), ec::overloaded);
  EXPECT_EQ(text_of(full), "1 requests wait for a place already and take 401024 of the 10000 bytes that "
                           "--max-queued-bytes allows; this one takes 1064");
  auto promised = request_of(3);
  promised.follows = true;
  EXPECT_FALSE(policy.enqueue(promised, {}));
  policy.release({1});
  for (std::uint64_t id = 4; id <= 12; ++id)
    EXPECT_FALSE(policy.enqueue(request_of(id), {})) << "9 × 1064 bytes";
  EXPECT_EQ(code_of(policy.enqueue(request_of(13), {})), ec::overloaded);
  policy.release({4});
  EXPECT_FALSE(policy.enqueue(request_of(13), {})) << "what left has given its bytes back";
}

TEST(admission_policy, the_queue_can_be_bounded_by_number_too) {
  admission_policy policy{{.requests = 2}};
  EXPECT_FALSE(policy.enqueue(request_of(1), {}));
  EXPECT_FALSE(policy.enqueue(request_of(2), {}));
  EXPECT_EQ(text_of(policy.enqueue(request_of(3), {})),
            "2 requests wait for a place already, as many as --max-num-queued-reqs allows");
}

TEST(admission_policy, ten_thousand_short_requests_wait_at_the_defaults_in_their_order) {
  admission_policy policy{{}};
  policy.add_worker(seats_of(1, 1000, 1));
  for (std::uint64_t id = 1; id <= 10'000; ++id)
    ASSERT_FALSE(policy.enqueue(request_of(id, 500, 128), {})) << id;
  for (std::uint64_t id = 1; id <= 10'000; ++id) {
    const auto places = policy.place({});
    ASSERT_EQ(places.size(), 1U);
    ASSERT_EQ(places[0].id.value, id);
    policy.release({id});
  }
}

TEST_F(scheduler_fixture, views_tell_the_longest_context_of_the_workers) {
  start();
  auto& first = join(seats_of(1, 300));
  join(seats_of(2, 200));
  join(expert_hello(11));
  EXPECT_EQ(first.log->views.back().max_model_len, 300U);
  auto& larger = join(seats_of(3, 400));
  EXPECT_EQ(first.log->views.back().max_model_len, 400U);
  die(larger);
  run();
  EXPECT_EQ(first.log->views.back().max_model_len, 300U);
  for (const auto& worker : status().workers)
    if (worker.address.role == worker_role::attention) {
      EXPECT_EQ(worker.kv_capacity_tokens, worker.max_model_len);
      EXPECT_EQ(worker.max_num_seqs, 4U);
    }
}

TEST_F(scheduler_fixture, an_assignment_says_how_many_choices_may_run) {
  start_ready();
  auto wide = request_of(1);
  wide.num_choices = 50;
  const auto& answered = admit(wide);
  ASSERT_EQ(answered.worker(), 1U);
  EXPECT_EQ(answered.result->num_choices, 4U);
}

} // namespace
} // namespace troupe
