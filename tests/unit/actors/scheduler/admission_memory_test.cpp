// The memory of a place, and the wait for it: learned lengths, workers' reports, large requests among small
// ones, and overload.
#include <gtest/gtest.h>

#include "actors/scheduler/admission_policy.hpp"
#include "tests/unit/actors/scheduler/dice.hpp"
#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

worker_hello worker_of(std::uint64_t id, std::uint32_t kv_tokens, std::uint32_t max_num_seqs = 64) {
  auto hello = attention_hello(id);
  hello.of_role = attention_terms{
      .max_num_seqs = max_num_seqs, .kv_capacity_tokens = kv_tokens, .max_model_len = kv_tokens};
  return hello;
}

admission_request of_tenant(const std::string& tenant, std::uint64_t id, std::uint32_t max_new_tokens) {
  auto request = request_of(id, 10, max_new_tokens);
  request.tenant = tenant;
  return request;
}

/// Ends requests of a tenant after this many tokens.
void teach(admission_policy& policy, const std::string& tenant, int count, std::uint32_t num_tokens) {
  for (std::uint64_t id = 1'000'000; count-- > 0; ++id) {
    ASSERT_FALSE(policy.enqueue(of_tenant(tenant, id, 900), {}));
    ASSERT_EQ(policy.place({}).size(), 1U);
    policy.answered({id}, num_tokens);
    policy.release({id});
  }
}

lease_renewal uses(std::uint64_t worker, std::uint64_t kv_tokens) {
  lease_renewal load;
  load.id = {worker};
  load.of_role = attention_load{.kv_tokens_used = kv_tokens};
  return load;
}

TEST(admission_memory, a_place_takes_what_answers_are_likely_to_take) {
  admission_policy policy{{}, {.quantile = 0.8, .prior_tokens = 500}};
  policy.add_worker(worker_of(1, 1000));
  ASSERT_FALSE(policy.enqueue(of_tenant("a", 1, 900), {}));
  ASSERT_FALSE(policy.enqueue(of_tenant("a", 2, 900), {}));
  EXPECT_EQ(policy.place({}).size(), 1U) << "nothing is known yet: two of 510 do not fit";
  EXPECT_EQ(policy.budget({1})->kv_tokens, 510U);
  policy.release({1});
  policy.release({2});
  teach(policy, "a", 100, 40);
  for (std::uint64_t id = 1; id <= 100; ++id)
    ASSERT_FALSE(policy.enqueue(of_tenant("a", id, 900), {}));
  const auto places = policy.place({});
  EXPECT_GE(places.size(), 14U) << "of some 60 tokens, each of which may have 910";
  EXPECT_LE(places.size(), 20U);
  EXPECT_LE(policy.kv_tokens().reserved, 1000U);
}

TEST(admission_memory, no_more_is_set_aside_than_a_request_may_take) {
  admission_policy policy{{}};
  policy.add_worker(worker_of(1, 1000));
  teach(policy, "a", 100, 400);
  ASSERT_FALSE(policy.enqueue(of_tenant("a", 1, 20), {}));
  ASSERT_EQ(policy.place({}).size(), 1U);
  EXPECT_EQ(policy.budget({1})->kv_tokens, 30U);
}

TEST(admission_memory, what_can_never_fit_is_refused_however_short_its_answer_is_likely_to_be) {
  admission_policy policy{{}};
  policy.add_worker(worker_of(1, 1000));
  teach(policy, "a", 100, 10);
  EXPECT_EQ(text_of(policy.enqueue(of_tenant("a", 1, 1000), {})),
            "prompt and new tokens need 1010 positions, the longest context here has 1000");
}

TEST(admission_memory, tenants_do_not_pay_for_one_anothers_answers) {
  admission_policy policy{{}};
  policy.add_worker(worker_of(1, 1000));
  teach(policy, "short", 100, 10);
  teach(policy, "long", 100, 600);
  ASSERT_FALSE(policy.enqueue(of_tenant("short", 1, 900), {}));
  ASSERT_EQ(policy.place({}).size(), 1U);
  EXPECT_LE(policy.budget({1})->kv_tokens, 30U);
  policy.release({1});
  ASSERT_FALSE(policy.enqueue(of_tenant("long", 2, 900), {}));
  ASSERT_EQ(policy.place({}).size(), 1U);
  EXPECT_GE(policy.budget({1})->kv_tokens, 500U);
}

TEST(admission_memory, answers_that_were_cut_do_not_make_longer_ones_look_short) {
  admission_policy policy{{}, {.quantile = 0.8, .prior_tokens = 500}};
  policy.add_worker(worker_of(1, 1000));
  for (std::uint64_t id = 1; id <= 300; ++id) {
    ASSERT_FALSE(policy.enqueue(of_tenant("a", id, 16), {}));
    ASSERT_EQ(policy.place({}).size(), 1U);
    policy.answered({id}, 16);
    policy.release({id});
  }
  EXPECT_GE(policy.likely_new_tokens(), 500U);
}

TEST(admission_memory, what_a_worker_uses_beyond_what_was_set_aside_is_not_given_away) {
  admission_policy policy{{}};
  policy.add_worker(worker_of(1, 1000));
  ASSERT_FALSE(policy.enqueue(request_of(1, 100, 100), {}));
  ASSERT_EQ(policy.place({}).size(), 1U);
  policy.reconcile(uses(1, 850));
  ASSERT_FALSE(policy.enqueue(request_of(2, 100, 100), {}));
  EXPECT_TRUE(policy.place({}).empty());
  policy.reconcile(uses(1, 800));
  EXPECT_EQ(policy.place({}).size(), 1U);
  EXPECT_EQ(policy.kv_tokens().used, 800U);
  policy.release({1});
  EXPECT_EQ(policy.kv_tokens().used, 600U) << "before its worker says so";
}

TEST(admission_memory, more_than_can_have_a_place_in_time_are_refused_at_once) {
  admission_policy policy{{.wait = 10s}};
  policy.add_worker(worker_of(1, 1000, 1)); // one after the other
  time_point now{};
  std::uint64_t next = 1;
  std::size_t num_waiting = 0;
  // Each runs for a second: some ten have a place within the longest wait.
  for (std::uint64_t second = 0; second < 60; ++second) {
    for (int i = 0; i < 10; ++i, now += 100ms) {
      for (int burst = 0; burst < 5; ++burst) {
        auto request = request_of(next++, 90, 10);
        request.deadline_ms = 600'000;
        const auto error = policy.enqueue(request, now);
        if (error) {
          EXPECT_EQ(code_of(error), ec::overloaded);
          EXPECT_NE(text_of(error).find("--max-queue-wait"), std::string::npos);
        }
        policy.place(now);
      }
    }
    num_waiting = policy.num_queued();
    for (std::uint64_t id = 1; id < next; ++id)
      if (policy.num_placed() > 0 && policy.has_request({id})) {
        policy.release({id}); // the oldest: it has the place
        break;
      }
    policy.place(now);
    policy.expire(now, true);
  }
  EXPECT_GE(num_waiting, 6U);
  EXPECT_LE(num_waiting, 10U);
  auto promised = request_of(next, 90, 10);
  promised.follows = true;
  EXPECT_FALSE(policy.enqueue(promised, now));
}

TEST(admission_memory, a_request_that_has_waited_too_long_after_all_is_told_so) {
  admission_policy policy{{.wait = 10s}};
  policy.add_worker(worker_of(1, 1000, 1));
  for (std::uint64_t id = 1; id <= 3; ++id) {
    auto request = request_of(id);
    request.deadline_ms = 600'000;
    request.follows = id == 3;
    ASSERT_FALSE(policy.enqueue(request, {}));
  }
  ASSERT_EQ(policy.place({}).size(), 1U);
  EXPECT_TRUE(policy.expire(time_point{} + 9s, true).empty());
  const auto expired = policy.expire(time_point{} + 10s, true);
  ASSERT_EQ(expired.size(), 1U);
  EXPECT_EQ(expired[0].id.value, 2U) << "the other is promised a place";
  EXPECT_EQ(code_of(expired[0].error), ec::deadline_exceeded);
}

TEST(admission_memory, under_overload_who_waits_least_keeps_its_share) {
  admission_policy policy{{.wait = 10s}};
  policy.add_worker(worker_of(1, 1000, 4));
  time_point now{};
  std::uint64_t id = 1;
  bool is_full = false;
  for (; now < time_point{} + 5s && !is_full; now += 400ms) { // four run, and nothing ends
    is_full = static_cast<bool>(policy.enqueue(of_tenant("greedy", id++, 10), now));
    for (int i = 0; i < 4; ++i) // as often as the scheduler looks
      policy.place(now + i * 100ms);
  }
  EXPECT_TRUE(is_full);
  EXPECT_TRUE(policy.take_displaced().empty());
  EXPECT_FALSE(policy.enqueue(of_tenant("modest", 1000, 10), now));
  EXPECT_EQ(policy.take_displaced().size(), 1U);
}

/// Runs small requests all the time and large ones now and then, with places that end at random times. Large
/// ones need a whole worker.
/// @returns the longest wait of each kind
std::pair<std::chrono::nanoseconds, std::chrono::nanoseconds> longest_waits(std::uint32_t seed,
                                                                            bool one_tenant) {
  dice random{seed};
  admission_policy policy{{}};
  policy.add_worker(worker_of(1, 1000));
  time_point now{};
  std::map<std::uint64_t, time_point> running; // until when
  std::chrono::nanoseconds large{0};
  std::chrono::nanoseconds small{0};
  std::uint64_t next = 1;
  for (int step = 0; step < 3000; ++step, now += 100ms) {
    std::erase_if(running, [&](const auto& entry) {
      if (entry.second > now)
        return false;
      policy.release({entry.first});
      return true;
    });
    const bool is_large = step % 500 == 250;
    for (std::uint32_t count = is_large ? 1 : 1 + random.below(2); count > 0; --count, ++next) {
      auto request = is_large ? request_of(next, 990, 10) : request_of(next, 80, 20);
      request.tenant = is_large || one_tenant ? "a" : "b";
      request.deadline_ms = 3'600'000;
      EXPECT_FALSE(policy.enqueue(request, now));
    }
    for (const auto& place : policy.place(now)) {
      auto& longest = place.kv_tokens > 500 ? large : small;
      longest = std::max(longest, place.waited);
      running[place.id.value] = now + (1 + random.below(10)) * 100ms; // a second at most
    }
  }
  EXPECT_GT(large.count(), 0);
  return {large, small};
}

TEST(admission_memory, property_large_and_small_ones_are_served_in_bounded_time_side_by_side) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed)
    for (const bool one_tenant : {true, false}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + (one_tenant ? ", one tenant" : ", two tenants"));
      const auto [large, small] = longest_waits(seed, one_tenant);
      EXPECT_LE(large, defaults::overtaking + 1500ms)
          << "others go before it so long, and have a second to end";
      EXPECT_LE(small, 10s) << "while room is kept for the large one, and it runs";
    }
}

TEST_F(scheduler_fixture, learns_from_the_lengths_that_gateways_tell) {
  start_ready();
  for (std::uint64_t id = 1; id <= 60; ++id) {
    ASSERT_EQ(admit(request_of(id, 10, 400)).worker(), 1U) << id;
    caf::anon_send(scheduler, done_atom_v, request_id{id}, std::uint32_t{20});
    run();
  }
  for (std::uint64_t id = 101; id <= 104; ++id)
    EXPECT_EQ(admit(request_of(id, 10, 400)).worker(), 1U) << "four of 410 would not fit in 1000";
  EXPECT_LT(metrics->memory.reserved, 300U);
  EXPECT_EQ(metrics->memory.capacity, 1000U);
  EXPECT_LT(metrics->memory.likely_new_tokens, 60U);
  auto& worker = peers.front();
  worker.load.of_role = attention_load{.kv_tokens_used = 720};
  renew(worker);
  EXPECT_EQ(metrics->memory.used, 720U);
}

TEST_F(scheduler_fixture, a_queue_that_would_take_too_long_is_refused_with_the_flag_to_change) {
  start_ready(1, {.max_queue_wait = 5s});
  for (std::uint64_t id = 1; id <= 4; ++id)
    ASSERT_EQ(admit(request_of(id)).worker(), 1U);
  admit(request_of(5));
  pass(1s); // nothing ends: as many may wait as run
  for (std::uint64_t id = 6; id <= 8; ++id)
    EXPECT_FALSE(admit(request_of(id)).is_here);
  EXPECT_EQ(admit(request_of(9)).code(), ec::overloaded);
  pass(4200ms);
  EXPECT_EQ(answers[4].code(), ec::deadline_exceeded) << "nobody has made room";
  EXPECT_FALSE(answers[5].is_here);
  pass(1500ms);
  EXPECT_EQ(answers[5].code(), ec::deadline_exceeded);
  EXPECT_EQ(status().queued, 0U);
}

} // namespace
} // namespace troupe
