// Fairness among API keys at the scheduler: places in turn, and a share of the queue.
#include <gtest/gtest.h>

#include "actors/scheduler/admission_policy.hpp"
#include "tests/unit/actors/scheduler/dice.hpp"
#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

admission_request with_weight(const std::string& tenant, std::uint64_t id, std::uint32_t weight = 1) {
  auto request = request_of(id);
  request.tenant = tenant;
  request.weight = weight;
  return request;
}

worker_hello one_seat() {
  auto hello = attention_hello(1);
  terms_of<attention_terms>(hello).max_num_seqs = 1;
  return hello;
}

std::vector<std::uint64_t> displaced(admission_policy& policy) {
  std::vector<std::uint64_t> result;
  for (const auto& one : policy.take_displaced()) {
    EXPECT_EQ(code_of(one.error), ec::overloaded);
    result.push_back(one.id.value);
  }
  return result;
}

TEST(admission_policy, tenants_get_places_in_turn) {
  admission_policy policy{{}};
  policy.add_worker(one_seat());
  for (std::uint64_t id = 1; id <= 3; ++id)
    ASSERT_FALSE(policy.enqueue(with_weight("a", id), {}));
  ASSERT_FALSE(policy.enqueue(with_weight("b", 4), {}));
  std::vector<std::uint64_t> order;
  while (policy.num_queued() > 0) {
    const auto places = policy.place({});
    ASSERT_EQ(places.size(), 1U);
    order.push_back(places[0].id.value);
    policy.release(places[0].id);
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 4, 2, 3}));
}

TEST(admission_policy, a_large_request_of_another_tenant_does_not_keep_small_ones_waiting) {
  admission_policy policy{{}};
  auto worker = attention_hello(1);
  policy.add_worker(worker);
  ASSERT_FALSE(policy.enqueue(with_weight("a", 1), {}));
  ASSERT_EQ(policy.place({}).size(), 1U);
  auto wide = with_weight("a", 2);
  wide.num_choices = terms_of<attention_terms>(worker).max_num_seqs;
  ASSERT_FALSE(policy.enqueue(wide, {}));
  ASSERT_FALSE(policy.enqueue(with_weight("b", 3), {}));
  const auto places = policy.place({});
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].id.value, 3U);
  // In the end room is reserved for it.
  const auto later = time_point{} + defaults::overtaking;
  ASSERT_FALSE(policy.enqueue(with_weight("b", 4), later));
  EXPECT_TRUE(policy.place(later).empty());
  policy.release({1});
  policy.release({3});
  ASSERT_FALSE(policy.place(later).empty());
  EXPECT_EQ(policy.budget({1})->num_seqs, wide.num_choices);
}

TEST(admission_policy, of_a_full_queue_the_newest_of_who_has_most_gives_way) {
  admission_policy policy{{.requests = 4}};
  for (std::uint64_t id = 1; id <= 4; ++id)
    ASSERT_FALSE(policy.enqueue(with_weight("a", id), {}));
  EXPECT_EQ(code_of(policy.enqueue(with_weight("a", 5), {})), ec::overloaded);
  EXPECT_TRUE(displaced(policy).empty());
  EXPECT_FALSE(policy.enqueue(with_weight("b", 6), {}));
  EXPECT_EQ(displaced(policy), std::vector<std::uint64_t>{4});
  EXPECT_FALSE(policy.enqueue(with_weight("b", 7), {}));
  EXPECT_EQ(displaced(policy), std::vector<std::uint64_t>{3});
  EXPECT_EQ(code_of(policy.enqueue(with_weight("b", 8), {})), ec::overloaded) << "each has its half";
  EXPECT_EQ(code_of(policy.enqueue(with_weight("a", 9), {})), ec::overloaded);
  EXPECT_TRUE(displaced(policy).empty());
  EXPECT_FALSE(policy.enqueue(with_weight("c", 10), {}));
  EXPECT_EQ(displaced(policy).size(), 1U);
  EXPECT_EQ(policy.num_queued(), 4U);
}

TEST(admission_policy, shares_of_the_queue_are_by_weight_and_what_is_promised_stays) {
  admission_policy policy{{.requests = 4}};
  for (std::uint64_t id = 1; id <= 4; ++id)
    ASSERT_FALSE(policy.enqueue(with_weight("heavy", id, 3), {}));
  auto promised = with_weight("heavy", 5, 3);
  promised.follows = true;
  ASSERT_FALSE(policy.enqueue(promised, {}));
  EXPECT_FALSE(policy.enqueue(with_weight("light", 6), {}));
  EXPECT_EQ(displaced(policy), std::vector<std::uint64_t>{4});
  EXPECT_EQ(code_of(policy.enqueue(with_weight("light", 7), {})), ec::overloaded) << "three to one";
  EXPECT_TRUE(policy.has_request({5}));
}

TEST(admission_policy, shares_of_bytes_count_where_bytes_are_short) {
  admission_policy policy{{.bytes = 50'000}};
  auto long_one = with_weight("a", 1);
  long_one.prompt_tokens = 10'000; // 41,024 bytes
  ASSERT_FALSE(policy.enqueue(long_one, {}));
  for (std::uint64_t id = 2; id <= 8; ++id)
    ASSERT_FALSE(policy.enqueue(with_weight("b", id), {})) << id;
  ASSERT_TRUE(displaced(policy).empty());
  // b has more requests, and a more bytes.
  for (std::uint64_t id = 9; id <= 10; ++id)
    ASSERT_FALSE(policy.enqueue(with_weight("b", id), {})) << id;
  EXPECT_EQ(displaced(policy), std::vector<std::uint64_t>{1});
  long_one.id = {11};
  long_one.prompt_tokens = 12'000;
  EXPECT_EQ(code_of(policy.enqueue(long_one, {})), ec::overloaded)
      << "it would have more than those who would have to go";
  EXPECT_TRUE(displaced(policy).empty());
}

TEST(admission_policy, a_tenants_name_is_bounded) {
  admission_policy policy{{}};
  EXPECT_FALSE(policy.enqueue(with_weight(std::string(max_tenant_bytes, 'x'), 1), {}));
  EXPECT_EQ(code_of(policy.enqueue(with_weight(std::string(max_tenant_bytes + 1, 'x'), 2), {})),
            ec::bad_request);
}

/// A tenant without requests in a full queue finds room there; the queue stays within its bound, and no
/// request is lost.
TEST(admission_policy, property_a_full_queue_is_shared) {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    admission_policy policy{{.requests = 20}};
    std::map<std::uint64_t, std::string> waiting;
    const auto held_by = [&](const std::string& name) {
      return std::count_if(waiting.begin(), waiting.end(),
                           [&](const auto& entry) { return entry.second == name; });
    };
    for (std::uint64_t id = 1; id <= 300; ++id) {
      const auto name = random.below(3) > 0 ? std::string("greedy") : "t" + std::to_string(random.below(5));
      const auto before = held_by(name);
      const bool is_full = waiting.size() >= 20;
      const auto error = policy.enqueue(with_weight(name, id), {});
      for (const auto gone : displaced(policy)) {
        ASSERT_GT(held_by(waiting.at(gone)), before + 1) << "who gives way has more";
        waiting.erase(gone);
      }
      if (error) {
        EXPECT_TRUE(is_full);
        EXPECT_GT(before, 0) << "six tenants share twenty";
      } else {
        waiting[id] = name;
      }
      ASSERT_LE(waiting.size(), 20U);
      ASSERT_EQ(policy.num_queued(), waiting.size());
    }
  }
}

TEST_F(scheduler_fixture, a_request_that_gives_way_is_told_so) {
  start_ready(1, {.max_num_queued_reqs = 2});
  for (std::uint64_t id = 1; id <= 4; ++id)
    ASSERT_EQ(admit(with_weight("a", id)).worker(), 1U);
  auto& first = admit(with_weight("a", 5));
  auto& second = admit(with_weight("a", 6));
  EXPECT_FALSE(first.is_here || second.is_here);
  auto& other = admit(with_weight("b", 7));
  EXPECT_EQ(second.code(), ec::overloaded) << "at once";
  EXPECT_FALSE(first.is_here || other.is_here);
  EXPECT_EQ(metrics->refusals[ec::overloaded], 1U);
  EXPECT_EQ(admit(with_weight("b", 8)).code(), ec::overloaded) << "each has its half";
  done(1);
  EXPECT_EQ(first.worker(), 1U);
  done(2);
  EXPECT_EQ(other.worker(), 1U);
}

} // namespace
} // namespace troupe
