// Which workers are fenced because of complaints: a table of complaints and their results.
#include "actors/scheduler/hang_policy.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <gtest/gtest.h>

#include "actors/protocol/defaults.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t a1 = 1, a2 = 2, a3 = 3, h1 = 11, h2 = 12, h3 = 13, g1 = 21, g2 = 22;

/// Each worker's statements in its renewals, and the worker that they fence.
struct table_row {
  const char* what;
  std::vector<std::uint64_t> attention;
  std::vector<std::uint64_t> hosts;
  std::map<std::uint64_t, std::vector<complaint>> complaints;
  std::vector<std::uint64_t> progressing; ///< their engines give steps back
  std::vector<std::uint64_t> last_of_its_kind;
  std::uint64_t accused = 0; ///< 0: none
};

class hang_policy_test : public ::testing::Test {
 protected:
  void join(std::uint64_t id, worker_role role) {
    worker_hello hello;
    hello.address.id = {id};
    hello.address.role = role;
    policy.joined(hello, now);
    loads[id].id = {id};
    loads[id].engine.step_limit_ms = 10'000;
  }

  void complain(std::uint64_t id, std::vector<complaint> complaints) {
    if (id == g1 || id == g2)
      loads.at(id).of_role = gateway_load{std::move(complaints)};
    else
      loads.at(id).of_role = attention_load{.complaints = std::move(complaints)};
  }

  void renew(std::uint64_t id) { policy.renewed(loads.at(id), now); }

  /// All workers renew for this time.
  void pass(std::chrono::milliseconds time, const std::vector<std::uint64_t>& progressing = {}) {
    for (const auto end = now + time; now < end; now += 500ms) {
      for (auto id : progressing)
        ++loads.at(id).engine.steps;
      for (const auto& [id, load] : loads)
        renew(id);
    }
  }

  std::uint64_t next(const std::vector<std::uint64_t>& last_of_its_kind = {}) {
    const auto found = policy.next(now, [&](worker_id id) {
      return std::find(last_of_its_kind.begin(), last_of_its_kind.end(), id.value) == last_of_its_kind.end();
    });
    why = found ? found->why : "";
    return found ? found->worker.value : 0;
  }

  hang_policy policy;
  std::map<std::uint64_t, lease_renewal> loads;
  time_point now{1h};
  std::string why;
};

TEST_F(hang_policy_test, table) {
  const std::vector<table_row> rows{
      {"nobody complains", {a1, a2}, {h1, h2}, {}, {}, {}, 0},
      {"the only one that could", {a1}, {h1, h2, h3}, {{a1, {{{h2}, 10'000}}}}, {}, {}, h2},
      {"half of them", {a1, a2}, {h1, h2, h3}, {{a2, {{{h2}, 10'000}}}}, {}, {}, h2},
      {"not long enough", {a1, a2}, {h1, h2, h3}, {{a2, {{{h2}, 9'999}}}}, {}, {}, 0},
      {"a third", {a1, a2, a3}, {h1, h2, h3}, {{a2, {{{h2}, 29'999}}}}, {}, {}, 0},
      {"a third for long", {a1, a2, a3}, {h1, h2, h3}, {{a2, {{{h2}, 30'000}}}}, {}, {}, h2},
      {"two thirds",
       {a1, a2, a3},
       {h1, h2, h3},
       {{a1, {{{h2}, 10'000}}}, {a2, {{{h2}, 11'000}}}},
       {},
       {},
       h2},
      {"it answers others", {a1, a2}, {h1, h2, h3}, {{a2, {{{h2}, 99'000}}}}, {h2}, {}, 0},
      {"others get on", {a1, a2}, {h1, h2, h3}, {{a2, {{{h2}, 10'000}}}}, {h1, h3, a1, a2}, {}, h2},
      {"nobody else has what it has", {a1}, {h1, h2, h3}, {{a1, {{{h2}, 99'000}}}}, {}, {h2}, 0},
      {"the next one is not the last of its kind",
       {a1, a2, a3},
       {h1, h2, h3},
       {{a1, {{{h1}, 10'000}}}, {a2, {{{h1}, 10'000}}}, {a3, {{{h2}, 30'000}}}},
       {},
       {h1},
       h2},
      {"who complains of most is the trouble",
       {a1},
       {h1, h2, h3},
       {{a1, {{{h1}, 99'000}, {{h2}, 99'000}}}},
       {},
       {},
       0},
      {"but of the only one there is", {a1}, {h1}, {{a1, {{{h1}, 10'000}}}}, {}, {}, h1},
      {"an unknown host", {a1}, {h1}, {{a1, {{{h2}, 10'000}}}}, {}, {}, 0},
      {"hosts do not complain", {a1}, {h1, h2, h3}, {{h1, {{{h2}, 99'000}}}}, {}, {}, 0},
      {"attention workers complain of hosts only", {a1, a2, a3}, {h1}, {{a1, {{{a2}, 99'000}}}}, {}, {}, 0},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    policy = {};
    loads.clear();
    for (auto id : row.attention)
      join(id, worker_role::attention);
    for (auto id : row.hosts)
      join(id, worker_role::expert);
    for (const auto& [id, complaints] : row.complaints)
      complain(id, complaints);
    pass(12s, row.progressing);
    EXPECT_EQ(next(row.last_of_its_kind), row.accused);
  }
}

TEST_F(hang_policy_test, says_who_says_so) {
  join(a1, worker_role::attention);
  join(a2, worker_role::attention);
  join(h1, worker_role::expert);
  complain(a2, {{{h1}, 12'345}});
  pass(12s);
  EXPECT_EQ(next(), h1);
  EXPECT_EQ(why,
            "has answered nothing for 12.3 s, say 1 of 2 attention workers, and its engine has given no step "
            "back");
}

TEST_F(hang_policy_test, one_in_a_lease_at_most) {
  join(a1, worker_role::attention);
  for (auto id : {h1, h2, h3})
    join(id, worker_role::expert);
  complain(a1, {{{h1}, 10'000}});
  pass(12s);
  EXPECT_EQ(next(), h1);
  policy.removed({h1});
  loads.erase(h1);
  complain(a1, {{{h2}, 10'000}});
  pass(1500ms);
  EXPECT_EQ(next(), 0U);
  pass(500ms);
  EXPECT_EQ(next(), h2);
}

TEST_F(hang_policy_test, who_has_just_joined_has_time_to_answer) {
  join(a1, worker_role::attention);
  join(h1, worker_role::expert);
  complain(a1, {{{h1}, 99'000}});
  pass(9500ms);
  EXPECT_EQ(next(), 0U);
  pass(500ms);
  EXPECT_EQ(next(), h1);
}

TEST_F(hang_policy_test, an_engine_that_is_slow_by_its_own_measure_has_more_time) {
  join(a1, worker_role::attention);
  join(h1, worker_role::expert);
  loads[h1].engine = {5, 20'000, 60'000};
  complain(a1, {{{h1}, 59'999}});
  pass(70s);
  EXPECT_EQ(next(), 0U);
  complain(a1, {{{h1}, 60'000}});
  renew(a1);
  EXPECT_EQ(next(), h1);
}

TEST_F(hang_policy_test, gateways_complain_of_attention_workers_unless_those_wait_for_experts) {
  join(g1, worker_role::gateway);
  join(g2, worker_role::gateway);
  for (auto id : {a1, a2, a3})
    join(id, worker_role::attention);
  complain(g1, {{{a1}, 20'000}});
  loads[a1].of_role = attention_load{.at_experts = 1};
  pass(20s);
  EXPECT_EQ(next(), 0U) << "the hosts are to blame";
  loads[a1].of_role = attention_load{};
  pass(9s);
  EXPECT_EQ(next(), 0U) << "it may have had their answer just now";
  pass(1s);
  EXPECT_EQ(next(), a1);
  EXPECT_EQ(why,
            "has answered nothing for 20.0 s, say 1 of 2 gateway processes, and its engine has given no step "
            "back");
}

TEST_F(hang_policy_test, time_in_which_no_renewal_was_read_is_nobodys_silence) {
  join(a1, worker_role::attention);
  join(h1, worker_role::expert);
  pass(9s);
  complain(a1, {{{h1}, 10'000}});
  renew(a1);
  now += 60s;
  policy.extend(60s, now);
  EXPECT_EQ(next(), 0U);
  pass(1s);
  EXPECT_EQ(next(), h1);
}

TEST_F(hang_policy_test, progress_does_not_reach_into_the_future_after_a_pause) {
  join(a1, worker_role::attention);
  join(h1, worker_role::expert);
  now += 60s;
  pass(500ms, {h1}); // what lay in the mailbox is read before the pause is noticed
  policy.extend(60s, now);
  complain(a1, {{{h1}, 12'000}});
  pass(9s);
  EXPECT_EQ(next(), 0U);
  pass(2s);
  EXPECT_EQ(next(), h1) << "ten seconds after its last step, not seventy";
}

} // namespace
} // namespace troupe
