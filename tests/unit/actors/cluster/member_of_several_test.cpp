// A member that knows several schedulers, of which one is active.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/actors/cluster/member_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// Finds a scheduler by its endpoint, as the transport does.
struct switchboard {
  std::map<std::string, scheduler_actor> schedulers; ///< that listen, and are active
  std::set<std::string> hanging;                     ///< accept connections and never answer
  std::vector<std::string> asked;
};

struct switchboard_state {
  static inline const char* name = "switchboard";
  std::vector<caf::typed_response_promise<caf::strong_actor_ptr>> open;
};

directory_actor::behavior_type
switchboard_directory(directory_actor::stateful_pointer<switchboard_state> self,
                      std::shared_ptr<switchboard> lines) {
  return {[self, lines](caf::resolve_atom, const std::string& endpoint,
                        const std::string&) -> caf::result<caf::strong_actor_ptr> {
    lines->asked.push_back(endpoint);
    if (lines->hanging.contains(endpoint))
      return self->state.open.emplace_back(self->make_response_promise<caf::strong_actor_ptr>());
    if (auto found = lines->schedulers.find(endpoint); found != lines->schedulers.end())
      return caf::actor_cast<caf::strong_actor_ptr>(found->second);
    return make_error(ec::peer_down, endpoint + " has published no scheduler");
  }};
}

class member_of_several_test : public member_test {
 protected:
  /// A member that knows schedulers at "a" and "b".
  void start_between_two() {
    switchboard_actor = root(system.spawn(switchboard_directory, lines));
    worker = root(system.spawn(any_worker, expert_hello(11), log));
    member_config config;
    config.role = worker_role::expert;
    config.scheduler_endpoints = {"a", "b"};
    config.directory = switchboard_actor;
    config.worker = caf::actor_cast<caf::strong_actor_ptr>(worker);
    config.seed = 11;
    member = root(spawn_member(system, config));
    advance(1ms);
  }

  void TearDown() override {
    lines->schedulers.clear();
    other->member = nullptr;
    member_test::TearDown();
  }

  scheduler_actor listen_at(const std::string& endpoint, const std::shared_ptr<scheduler_log>& said) {
    auto added = root(system.spawn(fake_scheduler, said));
    lines->schedulers[endpoint] = added;
    return added;
  }

  void die_at(const std::string& endpoint) {
    const auto dead = lines->schedulers.at(endpoint);
    lines->schedulers.erase(endpoint);
    kill(dead);
  }

  std::vector<std::string> take_asked() { return std::exchange(lines->asked, {}); }

  std::shared_ptr<switchboard> lines = std::make_shared<switchboard>();
  directory_actor switchboard_actor;
  std::shared_ptr<scheduler_log> other = std::make_shared<scheduler_log>(); ///< of the one at "b"
};

TEST_F(member_of_several_test, finds_the_active_one_without_a_pause) {
  listen_at("b", other);
  start_between_two();
  EXPECT_EQ(take_asked(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(other->hellos.size(), 1U);
}

TEST_F(member_of_several_test, joins_the_standby_that_has_taken_over_and_says_its_term) {
  schedule->term = 3;
  other->term = 4;
  listen_at("a", schedule);
  start_between_two();
  ASSERT_EQ(schedule->hellos.size(), 1U);
  take_asked();
  die_at("a");
  advance(defaults::reconnect_min);
  EXPECT_EQ(take_asked(), (std::vector<std::string>{"b", "a"})) << "the standby first, and each once a pause";
  listen_at("b", other);
  advance(2 * defaults::reconnect_min);
  ASSERT_EQ(other->hellos.size(), 1U);
  EXPECT_EQ(other->hellos[0].term, 3U);
  EXPECT_EQ(log->views.back().experts.term, 4U);
  advance(1s);
  EXPECT_GE(other->renewals.size(), 2U);
}

TEST_F(member_of_several_test, one_that_stands_still_does_not_keep_it_from_its_standby) {
  schedule->term = 3;
  other->term = 4;
  listen_at("a", schedule);
  start_between_two();
  lines->hanging = {"a"};
  die_at("a"); // the transport has heard nothing for too long
  advance(defaults::reconnect_min);
  EXPECT_TRUE(other->hellos.empty());
  listen_at("b", other);
  advance(defaults::scheduler_probe + 2 * defaults::reconnect_min);
  EXPECT_EQ(other->hellos.size(), 1U);
}

TEST_F(member_of_several_test, follows_the_newer_term_and_not_one_that_wakes_up) {
  schedule->term = 3;
  other->term = 4;
  listen_at("b", other);
  start_between_two();
  ASSERT_EQ(other->hellos.size(), 1U);
  listen_at("a", schedule); // an older one is there again
  die_at("b");
  advance(1s);
  EXPECT_FALSE(schedule->hellos.empty()) << "it has asked";
  EXPECT_TRUE(schedule->renewals.empty()) << "and not followed";
  EXPECT_EQ(log->views.back().experts.term, 4U);
  other->term = 5;
  listen_at("b", other);
  advance(defaults::reconnect_max);
  EXPECT_EQ(log->views.back().experts.term, 5U);
}

TEST_F(member_of_several_test, asks_the_same_one_again_when_fenced) {
  listen_at("b", other);
  start_between_two();
  take_asked();
  from_scheduler(fence_atom_v);
  advance(1ms);
  EXPECT_EQ(take_asked(), (std::vector<std::string>{"b"}));
  EXPECT_EQ(other->hellos.size(), 2U);
}

TEST_F(member_of_several_test, pauses_once_a_round_while_nobody_is_there) {
  start_between_two();
  advance(3s);
  const auto asked = take_asked();
  EXPECT_EQ(asked.size() % 2, 0U);
  EXPECT_LE(asked.size(), 2U * 10U);
  EXPECT_GE(asked.size(), 2U * 7U);
}

} // namespace
} // namespace troupe
