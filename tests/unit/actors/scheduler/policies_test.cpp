// Invariants of the scheduler's pure policies under random load.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "actors/scheduler/admission_policy.hpp"
#include "actors/scheduler/assignment_policy.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/scheduler/dice.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

assignment_candidate candidate(std::uint64_t id, std::uint64_t num_seqs, std::uint64_t kv_tokens,
                               std::uint32_t cached = 0) {
  return {.id = {id},
          .budget = {.max_num_seqs = 4,
                     .kv_capacity_tokens = 100,
                     .max_model_len = 50,
                     .num_seqs = num_seqs,
                     .kv_tokens = kv_tokens},
          .prefix = {.known = cached}};
}

TEST(assignment_policy, a_known_beginning_is_worth_as_many_sequences_as_it_saves_work) {
  const attention_need need{.num_seqs = 1, .seq_tokens = 10};
  const auto chosen = [&](std::vector<assignment_candidate> candidates) {
    return choose_worker(candidates, need, {})->value;
  };
  constexpr auto cost = static_cast<std::uint32_t>(defaults::sequence_cost_tokens);
  EXPECT_EQ(chosen({candidate(1, 0, 0), candidate(2, 2, 0, 2 * cost + 1)}), 2U);
  EXPECT_EQ(chosen({candidate(1, 0, 0), candidate(2, 2, 0, 2 * cost - 1)}), 1U);
  EXPECT_EQ(chosen({candidate(1, 0, 50, cost), candidate(2, 1, 0, 2 * cost)}), 2U)
      << "as much work, more KV free";
  auto narrow = candidate(1, 1, 0, cost);
  narrow.budget.max_num_seqs = 2; // one of its seats is worth two of the other's
  EXPECT_EQ(chosen({narrow, candidate(2, 1, 0)}), 1U);
  narrow.prefix.known -= 1;
  EXPECT_EQ(chosen({narrow, candidate(2, 1, 0)}), 2U);
}

TEST(assignment_policy, what_a_request_there_holds_takes_no_room) {
  const attention_need need{.num_seqs = 1, .seq_tokens = 40};
  auto full = candidate(1, 1, 80);
  EXPECT_FALSE(choose_worker({full}, need, {}));
  full.prefix = {.known = 20, .shared = 16};
  EXPECT_FALSE(choose_worker({full}, need, {})) << "24 tokens beside 80 of 100";
  full.prefix.shared = 20;
  EXPECT_TRUE(choose_worker({full}, need, {}));
}

TEST(assignment_policy, prefers_few_sequences_then_free_kv_then_the_lower_id) {
  const attention_need need{.num_seqs = 1, .seq_tokens = 10};
  const auto chosen = [&](std::vector<assignment_candidate> candidates) {
    return choose_worker(candidates, need, {})->value;
  };
  EXPECT_EQ(chosen({candidate(1, 2, 0), candidate(2, 1, 90)}), 2U);
  EXPECT_EQ(chosen({candidate(1, 1, 50), candidate(2, 1, 10)}), 2U);
  EXPECT_EQ(chosen({candidate(2, 1, 10), candidate(1, 1, 10)}), 1U);
  EXPECT_FALSE(choose_worker({candidate(1, 4, 0), candidate(2, 0, 91)}, need, {}));
}

TEST(assignment_policy, waits_for_a_worker_that_did_not_fail_rather_than_take_one_that_did) {
  const attention_need need{.num_seqs = 1, .seq_tokens = 10};
  EXPECT_FALSE(choose_worker({candidate(1, 0, 0), candidate(2, 4, 0)}, need, {{1}}));
  EXPECT_EQ(choose_worker({candidate(1, 0, 0)}, need, {{1}})->value, 1U);
}

TEST(admission_policy, property_budgets_hold_and_nobody_is_forgotten) {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    admission_policy policy{{.requests = 8}};
    time_point now{};
    std::map<std::uint64_t, attention_need> needs; // of all requests that were taken
    std::map<std::uint64_t, std::uint64_t> placed; // request → worker
    std::set<std::uint64_t> waiting;
    std::set<std::uint64_t> promised; // of those
    std::set<std::uint64_t> workers;
    const auto leaves = [&](request_id id) {
      promised.erase(id.value);
      return waiting.erase(id.value);
    };
    const auto settle = [&] {
      for (const auto& entry : policy.place(now)) {
        ASSERT_EQ(leaves(entry.id), 1U);
        ASSERT_TRUE(workers.contains(entry.worker.value));
        auto& need = needs.at(entry.id.value);
        ASSERT_LE(entry.num_choices, need.num_seqs);
        ASSERT_GE(entry.num_choices, std::min<std::uint64_t>(need.num_seqs, 1000 / need.seq_tokens))
            << "as many as an idle worker holds";
        need.num_seqs = entry.num_choices; // the rest follows on the same place
        placed[entry.id.value] = entry.worker.value;
      }
      for (const auto& entry : policy.expire(now, true))
        ASSERT_EQ(leaves(entry.id), 1U);
    };
    for (std::uint64_t step = 1; step <= 300; ++step) {
      now += std::chrono::milliseconds{random.below(200)};
      switch (random.below(6)) {
      case 0: {
        const auto id = 1 + random.below(3);
        policy.add_worker(attention_hello(id));
        workers.insert(id);
        break;
      }
      case 1: {
        if (random.below(4) != 0 || workers.empty())
          break;
        const auto id = *workers.begin();
        policy.remove_worker({id});
        workers.erase(id);
        std::erase_if(placed, [id](const auto& entry) { return entry.second == id; });
        break;
      }
      case 2:
        if (!placed.empty()) {
          policy.release({placed.begin()->first});
          placed.erase(placed.begin());
        }
        break;
      default: {
        auto request = request_of(step, 1 + random.below(300), 1 + random.below(100));
        request.num_choices = 1 + random.below(3);
        request.priority = static_cast<std::int32_t>(random.below(3));
        request.attempt = random.below(5) == 0 ? 1 : 0;
        request.follows = random.below(5) == 0;
        request.deadline_ms = 500 + random.below(5000);
        const auto was_full = waiting.size() - promised.size() >= 8;
        const auto error = policy.enqueue(request, now);
        if (!error) {
          EXPECT_TRUE(!was_full || is_promised(request));
          waiting.insert(step);
          if (is_promised(request))
            promised.insert(step);
          needs[step] = {request.num_choices, std::uint64_t{request.prompt_tokens} + request.max_new_tokens};
        } else {
          EXPECT_TRUE((was_full && code_of(error) == ec::overloaded)
                      || code_of(error) == ec::context_exceeded);
        }
      }
      }
      settle();
      ASSERT_EQ(policy.num_placed(), placed.size());
      ASSERT_EQ(policy.num_queued(), waiting.size());
      for (auto worker : workers) {
        const auto* budget = policy.budget({worker});
        ASSERT_NE(budget, nullptr);
        std::uint64_t seqs = 0;
        std::uint64_t kv_tokens = 0;
        for (const auto& [id, at] : placed)
          if (at == worker) {
            seqs += needs.at(id).num_seqs;
            kv_tokens += needs.at(id).kv_tokens();
          }
        ASSERT_EQ(budget->num_seqs, seqs);
        ASSERT_EQ(budget->kv_tokens, kv_tokens);
        ASSERT_LE(seqs, budget->max_num_seqs);
        ASSERT_LE(kv_tokens, budget->kv_capacity_tokens);
      }
    }
    now += 10s;
    settle();
    EXPECT_TRUE(waiting.empty()) << "every wait has an end";
  }
}

} // namespace
} // namespace troupe
