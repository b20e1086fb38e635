// The scheduler's pure halves under random load: what must hold whatever happens.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "actors/scheduler/admission_policy.hpp"
#include "actors/scheduler/assignment_policy.hpp"
#include "actors/scheduler/placement_rollout.hpp"
#include "actors/scheduler/placement_solver.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class dice {
 public:
  explicit dice(uint32_t seed) : random_(seed) {}

  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

 private:
  std::mt19937 random_;
};

assignment_candidate candidate(uint64_t id, uint64_t num_seqs, uint64_t kv_tokens, uint32_t cached = 0) {
  return {.id = {id},
          .budget = {.max_num_seqs = 4,
                     .kv_capacity_tokens = 100,
                     .max_model_len = 50,
                     .num_seqs = num_seqs,
                     .kv_tokens = kv_tokens},
          .cached_prefix_tokens = cached};
}

TEST(assignment_policy, prefers_few_sequences_then_a_cached_prefix_then_free_kv_then_the_lower_id) {
  const attention_need need{.num_seqs = 1, .seq_tokens = 10};
  const auto chosen = [&](std::vector<assignment_candidate> candidates) {
    return choose_worker(candidates, need, {})->value;
  };
  EXPECT_EQ(chosen({candidate(1, 2, 0), candidate(2, 1, 90)}), 2U);
  EXPECT_EQ(chosen({candidate(1, 1, 0), candidate(2, 1, 50, 8)}), 2U);
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
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    admission_policy policy{8};
    time_point now{};
    std::map<uint64_t, attention_need> needs; // of all requests that were taken
    std::map<uint64_t, uint64_t> placed;      // request → worker
    std::set<uint64_t> waiting;
    std::set<uint64_t> promised; // of those
    std::set<uint64_t> workers;
    const auto leaves = [&](request_id id) {
      promised.erase(id.value);
      return waiting.erase(id.value);
    };
    const auto settle = [&] {
      for (const auto& entry : policy.place(now)) {
        ASSERT_EQ(leaves(entry.id), 1U);
        ASSERT_TRUE(workers.contains(entry.worker.value));
        placed[entry.id.value] = entry.worker.value;
      }
      for (const auto& entry : policy.expire(now, true))
        ASSERT_EQ(leaves(entry.id), 1U);
    };
    for (uint64_t step = 1; step <= 300; ++step) {
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
        request.priority = static_cast<int32_t>(random.below(3));
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
          needs[step] = {request.num_choices, uint64_t{request.prompt_tokens} + request.max_new_tokens};
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
        uint64_t seqs = 0;
        uint64_t kv_tokens = 0;
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

/// Experts of every layer and worker.
std::map<uint64_t, std::vector<uint32_t>> loads_of(const expert_placement& placement) {
  std::map<uint64_t, std::vector<uint32_t>> result;
  for (size_t layer = 0; layer < placement.size(); ++layer)
    for (const auto& hosts : placement[layer])
      for (auto host : hosts) {
        auto& loads = result[host.value];
        loads.resize(placement.size() + 1);
        ++loads[layer];
        ++loads.back();
      }
  return result;
}

TEST(placement_solver, property_covers_everything_evenly_within_memory) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    placement_problem problem;
    uint64_t num_experts = 0;
    for (auto layers = 1 + random.below(6); layers > 0; --layers) {
      problem.layer_experts.push_back(random.below(4) == 0 ? 0 : 1 + random.below(12));
      num_experts += problem.layer_experts.back();
    }
    const auto num_workers = 1 + random.below(6);
    const auto is_limited = random.below(2) == 0;
    for (uint64_t id = 1; id <= num_workers; ++id)
      problem.workers.push_back(
          {{id}, is_limited ? num_experts / num_workers + 1 + random.below(4) : unlimited_experts});
    problem.num_replicas = 1 + random.below(3);
    auto before = place_experts(problem, {}, {});
    ASSERT_EQ(place_experts(problem, {}, {}), before) << "the same again";
    ASSERT_EQ(place_experts(problem, before, before), before) << "what is good stays";
    const auto loads = loads_of(before);
    const auto replicas = std::min<size_t>(problem.num_replicas, num_workers);
    for (const auto& layer : before)
      for (const auto& hosts : layer) {
        ASSERT_GE(hosts.size(), 1U);
        ASSERT_LE(hosts.size(), replicas);
        if (!is_limited) {
          ASSERT_EQ(hosts.size(), replicas);
        }
        ASSERT_TRUE(std::adjacent_find(hosts.begin(), hosts.end()) == hosts.end());
      }
    for (const auto& worker : problem.workers) {
      const auto found = loads.find(worker.id.value);
      if (found != loads.end()) {
        ASSERT_LE(found->second.back(), worker.max_experts);
      }
    }
    if (!is_limited && num_experts > 0)
      for (size_t column = 0; column <= problem.layer_experts.size(); ++column) {
        uint32_t most = 0;
        uint32_t least = UINT32_MAX;
        for (const auto& worker : problem.workers) {
          const auto found = loads.find(worker.id.value);
          const auto load = found == loads.end() ? 0 : found->second[column];
          most = std::max(most, load);
          least = std::min(least, load);
        }
        ASSERT_LE(most - least, 1U) << "column " << column;
      }
  }
}

TEST(placement_solver, a_death_moves_nothing_but_what_died) {
  placement_problem problem{
      {8, 8}, {{{1}, unlimited_experts}, {{2}, unlimited_experts}, {{3}, unlimited_experts}}, 1, true};
  const auto before = place_experts(problem, {}, {});
  problem.workers.pop_back();
  const auto after = place_experts(problem, before, before);
  for (size_t layer = 0; layer < 2; ++layer)
    for (size_t expert = 0; expert < 8; ++expert)
      if (before[layer][expert] != std::vector<worker_id>{{3}}) {
        EXPECT_EQ(after[layer][expert], before[layer][expert]);
      }
}

TEST(placement_solver, a_joining_worker_gets_its_share_and_no_more_moves_than_that) {
  placement_problem problem{
      {8, 8}, {{{1}, unlimited_experts}, {{2}, unlimited_experts}, {{3}, unlimited_experts}}, 1, true};
  const auto before = place_experts(problem, {}, {});
  problem.workers.push_back({{4}, unlimited_experts});
  const auto after = place_experts(problem, before, before);
  size_t moves = 0;
  for (size_t layer = 0; layer < 2; ++layer)
    for (size_t expert = 0; expert < 8; ++expert)
      moves += after[layer][expert] != before[layer][expert] ? 1 : 0;
  EXPECT_EQ(moves, 4U);
}

/// Workers of a random cluster that do what they are told, late; attention workers confirm late. Whatever
/// happens, no router may ever send rows to a worker that has let go.
TEST(placement_rollout, property_nobody_is_routed_to_who_has_let_go) {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    placement_rollout policy;
    policy.set_layers({5, 0, 7});
    const auto capacity = random.below(2) == 0 ? unlimited_experts : 8;
    const auto replicas = 1 + random.below(2);
    std::map<uint64_t, std::set<expert_id>> loaded;             // by live worker
    std::map<uint64_t, std::vector<expert_id>> ordered;         // orders on their way
    std::map<uint64_t, std::pair<uint64_t, placement>> routers; // epoch confirmed, placement in use
    placement published;
    uint64_t epoch = 0;
    uint64_t next_id = 1;
    bool dirty = true;
    const auto check = [&] {
      for (const auto& [router, state] : routers)
        for (uint32_t layer = 0; layer < state.second.layers.size(); ++layer)
          for (uint32_t index = 0; index < state.second.layers[layer].experts.size(); ++index)
            for (auto host : state.second.layers[layer].experts[index].hosts)
              if (loaded.contains(host.value)) {
                ASSERT_TRUE(loaded[host.value].contains({layer, index}))
                    << "router " << router << " sends (" << layer << ", " << index << ") to " << host.value;
              }
    };
    for (int step = 0; step < 400; ++step) {
      switch (random.below(9)) {
      case 0:
        if (loaded.size() < 5) {
          loaded[next_id] = {};
          policy.add_host({next_id++}, capacity, {});
          dirty = true;
        }
        break;
      case 1:
        if (loaded.size() > 2 && random.below(3) == 0) {
          const auto victim = loaded.begin()->first;
          policy.remove_host({victim});
          loaded.erase(victim);
          ordered.erase(victim);
          dirty = true;
        }
        break;
      case 2:
        if (routers.size() < 3) {
          const auto id = 1000 + next_id++;
          routers[id] = {0, published};
          policy.add_router({id});
        } else if (random.below(3) == 0) {
          policy.remove_router({routers.begin()->first});
          routers.erase(routers.begin());
        }
        break;
      case 3:
      case 4:
        for (auto& [id, state] : routers)
          if (random.below(2) == 0) {
            state.second = published;
            if (random.below(2) == 0) {
              state.first = epoch;
              policy.confirmed({id}, epoch);
            }
          }
        break;
      case 5:
      case 6:
        for (auto& [id, order] : ordered)
          if (random.below(2) == 0) {
            loaded[id] = {order.begin(), order.end()};
            ASSERT_LE(order.size(), capacity);
            policy.reported({id}, order);
            ordered.erase(id);
            break;
          }
        break;
      default:
        if (dirty) {
          policy.retarget(replicas, true);
          dirty = false;
        }
        if (policy.wants_route())
          published = policy.route(1, ++epoch);
        for (const auto& [id, experts] : loaded)
          if (!ordered.contains(id))
            if (auto order = policy.next_order({id})) {
              // It may let go of the rest from this moment on.
              std::set<expert_id> keeps{order->begin(), order->end()};
              std::erase_if(loaded[id], [&keeps](expert_id expert) { return !keeps.contains(expert); });
              ordered[id] = *order;
            }
      }
      check();
      if (HasFatalFailure())
        return;
    }
    // Left alone, it comes to rest with everything hosted and in balance.
    for (int round = 0; round < 60; ++round) {
      for (auto& [id, order] : std::exchange(ordered, {})) {
        loaded[id] = {order.begin(), order.end()};
        policy.reported({id}, order);
      }
      if (std::exchange(dirty, false))
        policy.retarget(replicas, true);
      if (policy.wants_route())
        published = policy.route(1, ++epoch);
      for (auto& [id, state] : routers) {
        state = {epoch, published};
        policy.confirmed({id}, epoch);
      }
      for (const auto& [id, experts] : loaded)
        if (auto order = policy.next_order({id})) {
          std::set<expert_id> keeps{order->begin(), order->end()};
          std::erase_if(loaded[id], [&keeps](expert_id expert) { return !keeps.contains(expert); });
          ordered[id] = *order;
        }
      if (ordered.empty() && policy.is_stuck())
        policy.retarget(replicas, false);
    }
    if (loaded.size() * std::min<uint64_t>(capacity, 12) >= 12) {
      EXPECT_TRUE(policy.is_complete());
    }
    EXPECT_FALSE(policy.awaits_confirmation());
    check();
  }
}

} // namespace
} // namespace troupe
