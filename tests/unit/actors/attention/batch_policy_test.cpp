#include "actors/attention/batch_policy.hpp"
#include "tests/unit/actors/attention/small_batches.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include <gtest/gtest.h>

namespace troupe {
namespace {

using test::blocks;
using test::complete;
using test::names;
using test::small;

using slices = std::vector<batch_policy::slice>;

constexpr std::uint32_t any = 1000;

TEST(batch_policy, cuts_prefill_into_chunks_and_then_decodes) {
  batch_policy policy{small()};
  ASSERT_EQ(policy.add(1, 19, 0), ec::none);
  for (const auto& expected : {slices{{1, 0, 8, false}}, slices{{1, 8, 8, false}}, slices{{1, 16, 3, true}},
                               slices{{1, 19, 1, true}}, slices{{1, 20, 1, true}}}) {
    const auto plan = policy.next(any);
    EXPECT_EQ(plan.slices, expected);
    complete(policy, plan);
  }
  EXPECT_EQ(blocks(policy, 1).size(), 6U) << "21 tokens in blocks of 4";
}

TEST(batch_policy, a_full_pool_uses_the_whole_capacity) {
  auto limits = small();
  limits.max_num_batched_tokens = 64;
  for (const auto& reaches : {std::vector<kv_reach>{{}}, std::vector<kv_reach>{{}, {.window = 8}}}) {
    limits.reaches = reaches;
    limits.num_blocks = static_cast<std::uint32_t>(16 * reaches.size());
    batch_policy policy{limits};
    EXPECT_EQ(policy.tokens_used(), 0U);
    for (const auto name : {1U, 2U, 3U, 4U})
      ASSERT_EQ(policy.add(name, 16, 0), ec::none);
    policy.next(any);
    ASSERT_EQ(policy.store().num_held(), limits.num_blocks);
    EXPECT_EQ(policy.tokens_used(), policy.capacity());
  }
}

TEST(batch_policy, decodes_go_before_prefill_and_share_the_budget) {
  batch_policy policy{small()};
  policy.add(1, 2, 0);
  policy.add(2, 3, 0);
  complete(policy, policy.next(any));
  policy.add(3, 20, 0);
  const auto plan = policy.next(any);
  EXPECT_EQ(plan.slices, (slices{{1, 2, 1, true}, {2, 3, 1, true}, {3, 0, 6, false}}));
}

TEST(batch_policy, a_sequence_in_flight_is_left_alone) {
  batch_policy policy{small()};
  policy.add(1, 2, 0);
  policy.add(2, 2, 0);
  EXPECT_EQ(policy.ready(), 2U);
  const auto first = policy.next(1);
  EXPECT_EQ(first.slices, (slices{{1, 0, 2, true}}));
  EXPECT_EQ(policy.ready(), 1U);
  EXPECT_TRUE(policy.in_flight(1));
  const auto second = policy.next(any);
  EXPECT_EQ(second.slices, (slices{{2, 0, 2, true}}));
  EXPECT_TRUE(policy.next(any).slices.empty());
  complete(policy, first);
  EXPECT_EQ(policy.next(any).slices, (slices{{1, 2, 1, true}}));
}

TEST(batch_policy, ranks_by_priority_then_arrival) {
  auto limits = small();
  limits.max_num_seqs = 1;
  batch_policy policy{limits};
  policy.add(1, 2, 1);
  policy.add(2, 2, 0);
  policy.add(3, 2, 0);
  for (const batch_policy::key expected : {2U, 3U, 1U}) {
    const auto plan = policy.next(any);
    ASSERT_EQ(plan.slices.size(), 1U);
    EXPECT_EQ(plan.slices[0].sequence, expected);
    complete(policy, plan);
    policy.remove(expected);
  }
}

TEST(batch_policy, takes_the_blocks_of_the_lowest_rank_and_puts_it_at_the_head) {
  auto limits = small();
  limits.num_blocks = 3;
  limits.max_num_batched_tokens = 16;
  batch_policy policy{limits};
  ASSERT_EQ(policy.add(1, 4, 0), ec::none);
  ASSERT_EQ(policy.add(2, 4, 0), ec::none);
  ASSERT_EQ(policy.add(3, 3, 1), ec::none);
  policy.add(4, 1, 1);
  complete(policy, policy.next(any)); // 1, 2 and 3 have one block each
  const auto plan = policy.next(any);
  EXPECT_EQ(plan.preempted, (std::vector<batch_policy::preemption>{{3, 3}}));
  EXPECT_EQ(plan.slices, (slices{{1, 4, 1, true}})) << "2 may not take a block from 1, which goes before it";
  EXPECT_EQ(policy.waiting(), 2U);
  complete(policy, plan);
  policy.remove(1);
  const auto next = policy.next(any);
  EXPECT_EQ(next.slices, (slices{{2, 4, 1, true}}))
      << "3 stays in front of 4, and waits for a free block beside its own: 2 takes one soon";
  complete(policy, next);
  policy.remove(2);
  EXPECT_EQ(policy.next(any).slices, (slices{{3, 0, 4, true}, {4, 0, 1, true}}))
      << "its four known tokens are computed again";
}

TEST(batch_policy, a_preempted_sequence_waits_for_twice_as_many_free_blocks_each_time) {
  auto limits = small();
  limits.max_num_batched_tokens = 64;
  batch_policy policy{limits}; // 16 blocks of 4 tokens
  constexpr batch_policy::key runs = 1;
  constexpr batch_policy::key victim = 2;
  const auto pass = [&](bool grows) {
    const auto plan = policy.next(any);
    for (const auto& slice : plan.slices)
      policy.complete(slice.sequence, grows && slice.sequence > victim);
    return plan;
  };
  policy.add(runs, 4, -2);
  policy.add(victim, 4, 0);
  pass(false);
  batch_policy::key last = victim;
  for (const std::uint32_t headroom : {2U, 4U, 8U}) { // two will run, the victim left out
    policy.add(++last, 55, -1);                       // takes all 14 blocks, and then one of the victim's
    pass(true);
    pass(true);
    ASSERT_EQ(pass(true).preempted, (std::vector<batch_policy::preemption>{{victim, 4}}));
    policy.remove(last);
    policy.add(++last, (16 - 1 - headroom) * 4, -1); // leaves as many, and the victim needs one itself
    EXPECT_EQ(pass(false).slices.size(), 1U);
    EXPECT_TRUE(pass(false).slices.empty());
    policy.remove(last);
    policy.add(++last, (16 - 1 - headroom - 1) * 4, -1);
    EXPECT_EQ(pass(false).slices.back(), (batch_policy::slice{victim, 0, 4, true}));
    policy.remove(last);
  }
}

TEST(batch_policy, one_that_urgent_sequences_put_back_again_and_again_becomes_urgent) {
  auto limits = small();
  limits.num_blocks = 4;
  limits.max_num_batched_tokens = 64;
  batch_policy policy{limits};
  constexpr batch_policy::key patient = 1;
  ASSERT_EQ(policy.add(patient, 4, 5), ec::none);
  std::uint32_t num_preempted = 0;
  std::uint32_t num_urgent = 0;
  batch_policy::key last = patient;
  std::uint32_t length = 4;
  for (int round = 0; round < 2000 && length < 14; ++round) {
    // There is always another, more urgent one.
    if (policy.waiting() + policy.running() < 3 && (num_urgent == 0 || policy.waiting() < 2)) {
      ASSERT_EQ(policy.add(++last, 4, 0), ec::none);
      ++num_urgent;
    }
    const auto plan = policy.next(any);
    for (const auto& lost : plan.preempted)
      num_preempted += lost.sequence == patient ? 1 : 0;
    for (const auto& slice : plan.slices) {
      policy.complete(slice.sequence, slice.last);
      if (slice.sequence == patient)
        length += slice.last ? 1 : 0;
      else if (blocks(policy, slice.sequence).size() >= 3)
        policy.remove(slice.sequence); // its end
    }
  }
  EXPECT_EQ(length, 14U) << "it got to its end";
  EXPECT_GE(num_preempted, 1U);
  EXPECT_LE(num_urgent, 2 * defaults::max_put_back);
}

// Sixteen times more than the blocks hold at once, all of one priority: the first is never preempted, each of
// the others as often as blocks can be doubled, and everything ends.
TEST(batch_policy, property_preemptions_are_bounded_when_memory_is_short) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    const auto draw = [&](std::uint32_t low, std::uint32_t high) {
      return std::uniform_int_distribution{low, high}(random);
    };
    auto limits = small();
    limits.max_num_seqs = 16;
    limits.max_waiting = 1000;
    limits.num_blocks = 16; // 64 tokens
    batch_policy policy{limits};

    struct progress {
      std::uint32_t known = 0;
      std::uint32_t until = 0;
      std::uint32_t num_preempted = 0;
    };

    std::map<batch_policy::key, progress> live;
    for (batch_policy::key name = 1; name <= 32; ++name) {
      const auto known = draw(1, 10);
      live[name] = {known, draw(known + 1, 63), 0};
      ASSERT_EQ(policy.add(name, known, 0), ec::none);
    }
    std::uint64_t rows = 0;
    for (int round = 0; !live.empty(); ++round) {
      ASSERT_LT(round, 100'000) << "live lock";
      const auto plan = policy.next(any);
      for (const auto& [name, num_computed] : plan.preempted) {
        ASSERT_NE(name, live.begin()->first) << "the first one gets to its end";
        ASSERT_LE(++live.at(name).num_preempted, 6U) << "log2 of 16 blocks, and two";
      }
      for (const auto& slice : plan.slices) {
        rows += slice.num_rows;
        policy.complete(slice.sequence, slice.last);
        auto& sequence = live.at(slice.sequence);
        if (slice.last && ++sequence.known == sequence.until) {
          policy.remove(slice.sequence);
          live.erase(slice.sequence);
        }
      }
    }
    EXPECT_EQ(policy.store().num_held(), 0U);
    EXPECT_LT(rows, 32U * 63U * 3U) << "most is computed once";
  }
}

TEST(batch_policy, refuses_what_can_never_fit_and_what_is_too_much) {
  batch_policy policy{small()};
  EXPECT_EQ(policy.max_positions(), 64U);
  EXPECT_EQ(policy.add(1, 64, 0), ec::context_exceeded) << "no room for a new token";
  EXPECT_EQ(policy.add(1, 0, 0), ec::context_exceeded);
  EXPECT_EQ(policy.add(1, 63, 0), ec::none);
  for (batch_policy::key name = 2; name <= 6; ++name)
    EXPECT_EQ(policy.add(name, 1, 0), ec::none);
  EXPECT_EQ(policy.add(7, 1, 0), ec::overloaded);
  EXPECT_FALSE(policy.contains(7));
  auto limits = small();
  limits.num_blocks = 5;
  EXPECT_EQ(batch_policy{limits}.max_positions(), 20U) << "what the blocks hold";
}

TEST(batch_policy, a_common_prefix_is_computed_once) {
  batch_policy policy{small()};
  policy.add(1, 10, 0, names(7, 10));
  policy.add(2, 10, 0, names(7, 10));
  policy.add(3, 13, 0, names(7, 10, 13)); // three tokens more, of an earlier attempt
  policy.add(4, 2, 0);
  auto plan = policy.next(any);
  EXPECT_EQ(plan.slices, (slices{{1, 0, 8, false}}));
  complete(policy, plan);
  plan = policy.next(any);
  EXPECT_EQ(plan.slices, (slices{{1, 8, 2, true}, {2, 8, 2, true}, {3, 8, 4, false}}))
      << "two full blocks are shared, the third is each one's own";
  EXPECT_EQ(blocks(policy, 2)[0], blocks(policy, 1)[0]);
  EXPECT_EQ(blocks(policy, 3)[1], blocks(policy, 1)[1]);
  EXPECT_NE(blocks(policy, 2)[2], blocks(policy, 1)[2]);
  EXPECT_EQ(policy.store().references(blocks(policy, 1)[0]), 3U);
  EXPECT_EQ(policy.store().num_held(), 2U + 1U + 1U + 2U);
  complete(policy, plan);
  policy.remove(1);
  policy.remove(3);
  EXPECT_EQ(policy.store().num_held(), 3U) << "what 2 holds";
  policy.add(5, 10, 0, names(7, 10));
  plan = policy.next(any);
  EXPECT_EQ(plan.slices, (slices{{2, 10, 1, true}, {4, 0, 2, true}, {5, 8, 2, true}}));
}

TEST(batch_policy, who_waits_for_a_prefix_holds_nobody_up) {
  auto limits = small();
  limits.max_num_batched_tokens = 12;
  batch_policy policy{limits};
  policy.add(1, 9, 0, names(7, 9));
  policy.add(2, 9, 0, names(7, 9));
  policy.add(3, 2, 0);
  EXPECT_EQ(policy.next(any).slices, (slices{{1, 0, 9, true}, {3, 0, 2, true}}));
  EXPECT_TRUE(policy.next(any).slices.empty()) << "in flight is not computed";
  policy.remove(1);
  EXPECT_EQ(policy.next(any).slices, (slices{{2, 0, 9, true}})) << "nobody brings it any more";
}

TEST(batch_policy, a_prefix_within_one_block_is_not_worth_waiting) {
  batch_policy policy{small()};
  policy.add(1, 4, 0, names(7, 4));
  policy.add(2, 4, 0, names(7, 4));
  EXPECT_EQ(policy.next(any).slices, (slices{{1, 0, 4, true}, {2, 0, 4, true}}));
}

TEST(batch_policy, removal_frees_blocks_in_every_state) {
  batch_policy policy{small()};
  policy.add(1, 10, 0);
  policy.add(2, 10, 0);
  const auto plan = policy.next(1);
  policy.remove(2);
  EXPECT_EQ(policy.waiting(), 0U);
  EXPECT_EQ(policy.store().num_held(), 3U);
  policy.remove(1);
  EXPECT_EQ(policy.store().num_held(), 0U);
  EXPECT_EQ(policy.ready(), 0U);
  policy.remove(99);
}

batch_policy::limits windowed(std::vector<kv_reach> reaches) {
  auto limits = small();
  limits.max_model_len = 1000;
  limits.reaches = std::move(reaches);
  return limits;
}

TEST(batch_policy, layers_with_a_window_hold_blocks_of_what_they_see_alone) {
  for (const kv_reach reach : {kv_reach{.window = 10}, kv_reach{.chunk = 10}}) {
    auto limits = windowed({{}, reach});
    limits.num_blocks = 300;
    batch_policy policy{limits};
    ASSERT_EQ(policy.add(1, 60, 0), ec::none);
    std::size_t most = 0;
    for (std::uint32_t known = 60; known < 800; ++known) {
      auto plan = policy.next(any);
      while (!plan.slices[0].last) {
        complete(policy, plan);
        plan = policy.next(any);
      }
      EXPECT_EQ(blocks(policy, 1, 0).size(), (known + 3) / 4);
      EXPECT_EQ(policy.first_block(1, 0), 0U);
      most = std::max(most, blocks(policy, 1, 1).size() - policy.first_block(1, 1));
      const auto position = known - 1;
      const auto seen = reach.chunk != 0 ? position / 10 * 10 : position - 9;
      EXPECT_LE(policy.first_block(1, 1) * 4, seen);
      complete(policy, plan);
    }
    // 10 tokens, 8 rows of a step in the prefill, two blocks that are kept for others, and parts of two.
    EXPECT_LE(most, (10U + 8 + 8) / 4 + 2);
    EXPECT_LE(blocks(policy, 1, 1).size() - policy.first_block(1, 1), (10U + 1 + 8) / 4 + 2);
    policy.remove(1);
    EXPECT_EQ(policy.store().num_held(), 0U);
  }
}

TEST(batch_policy, windows_let_longer_sequences_fit) {
  auto limits = windowed({{}, {.window = 10}});
  limits.num_blocks = 40;
  EXPECT_EQ(batch_policy{limits}.max_positions(), (40U - 8) * 4) << "8 blocks hold a window and a step";
  limits.reaches = {{}, {}};
  EXPECT_EQ(batch_policy{limits}.max_positions(), 80U);
  limits.reaches = {{.window = 10}};
  EXPECT_EQ(batch_policy{limits}.max_positions(), 1000U);
}

TEST(batch_policy, its_capacity_is_of_equally_long_sequences) {
  auto limits = windowed({{}, {.window = 10}});
  limits.num_blocks = 400;
  // 100 blocks for each of 4 sequences, of which 6 are for the window.
  EXPECT_EQ(batch_policy{limits}.capacity(), std::max<std::uint64_t>(4 * (100 - 6) * 4, 1000));
  limits.reaches = {{}};
  EXPECT_EQ(batch_policy{limits}.capacity(), 1600U);
  limits.reaches = {{}, {}};
  EXPECT_EQ(batch_policy{limits}.capacity(), 800U);
}

TEST(batch_policy, the_window_of_a_common_prefix_is_shared) {
  auto limits = windowed({{}, {.window = 5}});
  limits.num_blocks = 64;
  limits.max_num_batched_tokens = 16;
  limits.retains = false;
  batch_policy policy{limits};
  policy.add(1, 30, 0, names(7, 30, 100));
  policy.add(2, 30, 0, names(7, 30, 100));
  auto plan = policy.next(any);
  EXPECT_EQ(plan.slices, (slices{{1, 0, 16, false}}));
  complete(policy, plan);
  plan = policy.next(any);
  EXPECT_EQ(plan.slices, (slices{{1, 16, 14, true}}));
  complete(policy, plan);
  plan = policy.next(any);
  EXPECT_EQ(plan.slices, (slices{{1, 30, 1, true}, {2, 28, 2, true}}));
  EXPECT_EQ(policy.first_block(2, 1), 6U) << "position 24 is the first that position 28 sees";
  EXPECT_EQ(blocks(policy, 2, 1)[6], blocks(policy, 1, 1)[6]);
  EXPECT_EQ(policy.store().references(blocks(policy, 1, 1)[6]), 2U);
  complete(policy, plan);
  for (int i = 0; i < 40; ++i)
    complete(policy, policy.next(any));
  policy.add(3, 30, 0, names(7, 30));
  plan = policy.next(any);
  EXPECT_EQ(plan.slices.back(), (batch_policy::slice{3, 0, 14, false}))
      << "the window of the others is far ahead";
}

TEST(batch_policy, what_a_removed_sequence_computed_is_found_again) {
  for (const auto& reaches : {std::vector<kv_reach>{{}}, std::vector<kv_reach>{{}, {.window = 5}},
                              std::vector<kv_reach>{{}, {.chunk = 8}}}) {
    auto limits = windowed(reaches);
    limits.num_blocks = 64;
    limits.max_num_batched_tokens = 64;
    batch_policy policy{limits};
    policy.add(1, 21, 0, names(7, 21));
    auto plan = policy.next(any);
    EXPECT_EQ(plan.started, (std::vector<batch_policy::start>{{1, 21, 0}}));
    complete(policy, plan);
    policy.remove(1);
    EXPECT_EQ(policy.store().num_held(), 0U);
    EXPECT_EQ(policy.tokens_used(), 0U);
    policy.add(2, 30, 0, names(7, 21, 30));
    plan = policy.next(any);
    EXPECT_EQ(plan.started, (std::vector<batch_policy::start>{{2, 30, 20}}));
    EXPECT_EQ(plan.slices, (slices{{2, 20, 10, true}}));
    complete(policy, plan);
    policy.add(3, 20, 0, names(7, 20));
    EXPECT_EQ(policy.next(any).slices.back(), (batch_policy::slice{3, 16, 4, true}))
        << "the last known token is computed";
    policy.add(4, 30, 0, names(8, 30));
    EXPECT_EQ(policy.next(any).slices.back(), (batch_policy::slice{4, 0, 30, true})) << "other tokens";
    policy.add(5, 21, 0, names(7, 21), true);
    EXPECT_EQ(policy.next(any).slices.back(), (batch_policy::slice{5, 0, 21, true}))
        << "its logprobs are wanted";
  }
}

TEST(batch_policy, retained_blocks_give_way_to_sequences_that_run) {
  auto limits = small();
  limits.max_num_batched_tokens = 64;
  batch_policy policy{limits}; // 16 blocks of 4 tokens
  policy.add(1, 40, 0, names(1, 40));
  complete(policy, policy.next(any));
  policy.remove(1);
  EXPECT_EQ(policy.store().num_retained(), 10U);
  policy.add(2, 44, 0, names(2, 44)); // takes the 6 free blocks, and the last 5 of the first one
  complete(policy, policy.next(any));
  EXPECT_EQ(policy.store().num_retained(), 5U);
  policy.remove(2);
  policy.add(3, 40, 0, names(1, 40));
  EXPECT_EQ(policy.next(any).started, (std::vector<batch_policy::start>{{3, 40, 20}}));
}

TEST(batch_policy, a_preempted_sequence_finds_its_blocks_unless_others_needed_them) {
  auto limits = small();
  limits.num_blocks = 8;
  limits.max_num_batched_tokens = 32;
  batch_policy policy{limits};
  policy.add(1, 12, 0, names(1, 32));
  policy.add(2, 16, 1, names(2, 32));
  complete(policy, policy.next(any)); // 1 has 3 blocks, 2 has 4
  for (std::uint32_t known = 13; known < 17; ++known) {
    auto plan = policy.next(any);
    EXPECT_TRUE(plan.preempted.empty());
    complete(policy, plan);
  }
  const auto plan = policy.next(any); // 1 needs a fifth block
  EXPECT_EQ(plan.preempted, (std::vector<batch_policy::preemption>{{2, 16}}));
  complete(policy, plan);
  policy.remove(1);
  EXPECT_EQ(policy.next(any).started, (std::vector<batch_policy::start>{{2, 17, 12}}))
      << "the last of its four blocks was taken";
}

} // namespace
} // namespace troupe
