// The order of turns: among tenants, among a tenant's requests, among large and small ones.
#include "actors/scheduler/fair_queue.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "actors/protocol/defaults.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/scheduler/dice.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using verdict = fair_queue::verdict;

admission_request queued_of(const std::string& tenant, std::uint64_t id, std::uint32_t weight = 1) {
  auto request = request_of(id);
  request.tenant = tenant;
  request.weight = weight;
  return request;
}

/// Takes up to N requests for which `fits`; returns their ids.
template <class Fits>
std::vector<std::uint64_t> take(fair_queue& queue, std::size_t most, time_point now, Fits fits) {
  std::vector<std::uint64_t> result;
  queue.take_turns(now, [&](const fair_queue::waiting& one) {
    if (result.size() >= most || !fits(one.request))
      return verdict::no_room;
    result.push_back(one.request.id.value);
    return verdict::taken;
  });
  return result;
}

std::vector<std::uint64_t> take(fair_queue& queue, std::size_t most = 1000, time_point now = {}) {
  return take(queue, most, now, [](const admission_request&) { return true; });
}

TEST(fair_queue, one_tenants_requests_keep_their_order) {
  fair_queue queue;
  for (std::uint64_t id = 1; id <= 5; ++id)
    queue.add(request_of(id), {});
  EXPECT_EQ(take(queue), (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(queue.size(), 0U);
}

TEST(fair_queue, tenants_take_turns) {
  fair_queue queue;
  for (std::uint64_t id = 1; id <= 4; ++id)
    queue.add(queued_of("many", id), {});
  queue.add(queued_of("few", 10), {});
  queue.add(queued_of("few", 11), {});
  EXPECT_EQ(take(queue), (std::vector<std::uint64_t>{1, 10, 2, 11, 3, 4}));
}

TEST(fair_queue, a_tenant_of_weight_three_has_three_turns_for_one) {
  fair_queue queue;
  for (std::uint64_t id = 1; id <= 9; ++id)
    queue.add(queued_of("heavy", id, 3), {});
  for (std::uint64_t id = 101; id <= 103; ++id)
    queue.add(queued_of("light", id), {});
  const auto order = take(queue);
  ASSERT_EQ(order.size(), 12U);
  for (std::size_t end = 4; end <= 12; end += 4)
    EXPECT_EQ(std::count_if(order.begin() + static_cast<std::ptrdiff_t>(end) - 4,
                            order.begin() + static_cast<std::ptrdiff_t>(end),
                            [](std::uint64_t id) { return id > 100; }),
              1)
        << end;
}

TEST(fair_queue, who_comes_back_has_saved_no_turns_up_and_gets_none_twice) {
  fair_queue queue;
  for (std::uint64_t id = 1; id <= 10; ++id)
    queue.add(queued_of("busy", id), {});
  queue.add(queued_of("other", 50), {});
  EXPECT_EQ(take(queue, 2), (std::vector<std::uint64_t>{1, 50}));
  // It asks again at once, like a client that waits for each answer: that gives it no further turn.
  queue.add(queued_of("other", 51), {});
  EXPECT_EQ(take(queue, 2), (std::vector<std::uint64_t>{2, 51}));
  EXPECT_EQ(take(queue, 4), (std::vector<std::uint64_t>{3, 4, 5, 6}));
  for (std::uint64_t id = 52; id <= 60; ++id)
    queue.add(queued_of("other", id), {});
  EXPECT_EQ(take(queue, 4).size(), 4U);
  EXPECT_TRUE(queue.contains({54})) << "two turns of four, not the four that it let pass";
  EXPECT_FALSE(queue.contains({53}));
}

TEST(fair_queue, replays_and_priorities_come_before_turns) {
  fair_queue queue;
  queue.add(queued_of("a", 1), {});
  auto urgent = queued_of("a", 2);
  urgent.priority = -1;
  queue.add(urgent, {});
  queue.add(queued_of("b", 3), {});
  for (std::uint64_t id = 4; id <= 5; ++id) {
    auto replay = queued_of("c", id);
    replay.attempt = 1;
    queue.add(replay, {});
  }
  EXPECT_EQ(take(queue), (std::vector<std::uint64_t>{4, 5, 2, 1, 3}));
}

TEST(fair_queue, a_large_head_keeps_back_lower_priorities_only) {
  fair_queue queue;
  queue.add(queued_of("a", 1), {}); // large
  queue.add(queued_of("a", 2), {});
  queue.add(queued_of("b", 3), {});
  auto later = queued_of("c", 4);
  later.priority = 1;
  queue.add(later, {});
  const auto is_small = [](const admission_request& request) { return request.id.value != 1; };
  EXPECT_EQ(take(queue, 10, {}, is_small), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(take(queue), (std::vector<std::uint64_t>{1, 4}));
}

TEST(fair_queue, a_large_request_is_overtaken_by_its_own_tenant_for_a_while_only) {
  fair_queue queue;
  const auto is_small = [](const admission_request& request) { return request.id.value % 10 != 1; };
  queue.add(request_of(1), {});
  queue.add(request_of(2), {});
  EXPECT_EQ(take(queue, 10, {}, is_small), std::vector<std::uint64_t>{2});
  queue.add(request_of(11), {}); // another one behind it
  queue.add(request_of(12), {});
  const auto later = time_point{} + defaults::overtaking;
  EXPECT_TRUE(take(queue, 10, later, is_small).empty());
  EXPECT_EQ(take(queue, 1, later), std::vector<std::uint64_t>{1});
  EXPECT_EQ(take(queue, 10, later, is_small), std::vector<std::uint64_t>{12})
      << "the next one may be overtaken, too";
}

TEST(fair_queue, looks_past_so_many_without_room_and_no_further) {
  fair_queue queue;
  std::uint64_t id = 1;
  for (; id <= defaults::max_looked_past + 1; ++id)
    queue.add(queued_of("large", id), {});
  queue.add(queued_of("large", id), {});
  queue.add(queued_of("small", id + 1), {});
  std::size_t num_offered = 0;
  queue.take_turns({}, [&](const fair_queue::waiting& one) {
    ++num_offered;
    return one.request.tenant == "small" ? verdict::taken : verdict::no_room;
  });
  EXPECT_EQ(num_offered, defaults::max_looked_past + 2);
  EXPECT_FALSE(queue.contains({id + 1}));
}

TEST(fair_queue, nobody_is_offered_a_place_where_there_is_none) {
  fair_queue queue;
  for (std::uint64_t id = 1; id <= 3; ++id)
    queue.add(queued_of("t" + std::to_string(id), id), {});
  std::size_t num_offered = 0;
  queue.take_turns({}, [&](const fair_queue::waiting&) {
    ++num_offered;
    return verdict::full;
  });
  EXPECT_EQ(num_offered, 1U);
  EXPECT_EQ(queue.size(), 3U);
}

TEST(fair_queue, a_large_request_is_overtaken_for_a_while_only) {
  fair_queue queue;
  const auto is_small = [](const admission_request& request) { return request.tenant == "small"; };
  queue.add(queued_of("large", 1), {});
  time_point now = time_point{} + 1h; // no request has overtaken it in this time
  queue.add(queued_of("small", 2), now);
  EXPECT_EQ(take(queue, 10, now, is_small), std::vector<std::uint64_t>{2});
  now += defaults::overtaking - 1ms;
  queue.add(queued_of("small", 3), now);
  EXPECT_EQ(take(queue, 10, now, is_small), std::vector<std::uint64_t>{3});
  now += 1ms;
  queue.add(queued_of("small", 4), now);
  EXPECT_TRUE(take(queue, 10, now, is_small).empty()) << "the room is kept for the large one";
  EXPECT_EQ(take(queue, 10, now), (std::vector<std::uint64_t>{1, 4}));
}

TEST(fair_queue, who_waited_for_room_does_not_catch_up_on_turns) {
  fair_queue queue;
  std::uint64_t next = 100;
  queue.add(queued_of("large", 1), {});
  for (int i = 0; i < 20; ++i)
    queue.add(queued_of("small", next++), {});
  const auto is_small = [](const admission_request& request) { return request.tenant == "small"; };
  EXPECT_EQ(take(queue, 10, {}, is_small).size(), 10U);
  for (std::uint64_t id = 2; id <= 10; ++id)
    queue.add(queued_of("large", id), {});
  const auto order = take(queue, 6);
  EXPECT_EQ(std::count_if(order.begin(), order.end(), [](std::uint64_t id) { return id < 100; }), 3);
}

TEST(fair_queue, a_replay_without_room_keeps_everybody_back) {
  fair_queue queue;
  auto replay = queued_of("a", 1);
  replay.attempt = 1;
  queue.add(replay, {});
  queue.add(queued_of("b", 2), {});
  EXPECT_TRUE(take(queue, 10, {}, [](const auto& request) { return request.id.value != 1; }).empty());
}

TEST(fair_queue, requests_that_want_no_place_now_are_passed_over) {
  fair_queue queue;
  for (std::uint64_t id = 1; id <= 3; ++id)
    queue.add(request_of(id), {});
  std::vector<std::uint64_t> taken;
  queue.take_turns({}, [&](const fair_queue::waiting& one) {
    if (one.request.id.value == 1)
      return verdict::skipped;
    taken.push_back(one.request.id.value);
    return verdict::taken;
  });
  EXPECT_EQ(taken, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(take(queue), std::vector<std::uint64_t>{1});
}

TEST(fair_queue, expired_requests_come_out_in_the_order_of_precedence) {
  fair_queue queue;
  auto late = request_of(1);
  late.deadline_ms = 100;
  late.priority = 5;
  queue.add(late, {});
  late.id = {2};
  late.priority = 0;
  queue.add(late, {});
  queue.add(request_of(3), {});
  std::vector<std::uint64_t> ids;
  for (const auto& one : queue.take_expired(time_point{} + 100ms))
    ids.push_back(one.request.id.value);
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{2, 1}));
  EXPECT_EQ(queue.size(), 1U);
  EXPECT_EQ(queue.new_requests().requests, 1U);
}

TEST(fair_queue, a_longest_wait_ends_before_the_deadline_and_never_after) {
  fair_queue queue;
  queue.add(request_of(1), {}, 0, 5s); // its own deadline is after 10 s
  queue.add(request_of(2), {}, 0, 50s);
  EXPECT_TRUE(queue.take_expired(time_point{} + 4999ms).empty());
  EXPECT_EQ(queue.take_expired(time_point{} + 5s).size(), 1U);
  EXPECT_EQ(queue.take_expired(time_point{} + 10s).size(), 1U);
}

TEST(fair_queue, counts_the_tokens_that_wait) {
  fair_queue queue;
  queue.add(request_of(1), {}, 100);
  queue.add(request_of(2), {}, 50);
  EXPECT_EQ(queue.new_requests().tokens, 150U);
  take(queue, 1);
  EXPECT_EQ(queue.new_requests().tokens, 50U);
  queue.remove({2});
  EXPECT_EQ(queue.new_requests().tokens, 0U);
}

/// Whatever comes and goes, tenants that always have waiting requests get turns in proportion to their
/// weights, within one turn each.
TEST(fair_queue, property_turns_are_in_proportion_to_weights_and_nobody_is_lost) {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    fair_queue queue;

    struct tenant {
      std::string name;
      std::uint32_t weight;
      std::uint64_t turns = 0;
      std::uint64_t newest = 0;
    };

    std::vector<tenant> tenants;
    const auto num_tenants = 2 + random.below(6);
    for (std::uint32_t i = 0; i < num_tenants; ++i)
      tenants.push_back({"t" + std::to_string(i), 1 + random.below(10)});
    std::uint64_t next_id = 1;
    std::set<std::uint64_t> waiting;
    const auto add = [&](const std::string& name, std::uint32_t weight) {
      queue.add(queued_of(name, next_id, weight), {});
      waiting.insert(next_id++);
    };
    for (const auto& one : tenants)
      for (int i = 0; i < 3; ++i)
        add(one.name, one.weight);
    for (int step = 0; step < 300; ++step) {
      if (random.below(4) == 0) // others that come and go
        add("guest" + std::to_string(random.below(4)), 1 + random.below(3));
      queue.take_turns({}, [&, left = 1 + random.below(3)](const fair_queue::waiting& one) mutable {
        if (left == 0)
          return verdict::no_room;
        --left;
        const auto& request = one.request;
        EXPECT_EQ(waiting.erase(request.id.value), 1U);
        for (auto& known : tenants)
          if (known.name == request.tenant) {
            ++known.turns;
            EXPECT_GT(request.id.value, known.newest) << "a tenant's own keep their order";
            known.newest = request.id.value;
          }
        return verdict::taken;
      });
      // At most three turns were taken, so that each tenant always has a waiting request.
      for (const auto& known : tenants)
        for (int i = 0; i < 3; ++i)
          add(known.name, known.weight);
      for (const auto& l : tenants)
        for (const auto& r : tenants) {
          const auto ahead =
              static_cast<std::int64_t>(l.turns * r.weight) - static_cast<std::int64_t>(r.turns * l.weight);
          ASSERT_LE(ahead, static_cast<std::int64_t>(l.weight + r.weight)) << l.name << ' ' << r.name;
        }
    }
    for (const std::uint64_t id : take(queue, 1'000'000))
      waiting.erase(id);
    EXPECT_TRUE(waiting.empty());
    EXPECT_EQ(queue.size(), 0U);
    EXPECT_EQ(queue.new_requests().requests, 0U);
    EXPECT_EQ(queue.new_requests().bytes, 0U);
  }
}

} // namespace
} // namespace troupe
