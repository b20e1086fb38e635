#include "actors/transport/fabric/peer_meeting.hpp"

#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace troupe::wire {
namespace {

using namespace std::chrono_literals;

fabric_settings settings_of(const std::string& node) {
  fabric_settings result;
  result.node = node;
  result.heartbeat = 500ms;
  result.silence = 2s;
  result.window = {1000, 10};
  return result;
}

/// A fabric without a network, of the process "m", which listens at "here:1".
class peer_meeting_test : public testing::Test, public peer_meeting::host {
 public:
  void dial(const std::string& endpoint) override {
    if (endpoint == "nonsense")
      throw std::runtime_error("no endpoint");
    ++num_dialled;
    dialling.insert(endpoint);
  }

  void stop_dialling(const std::string& endpoint) override { dialling.erase(endpoint); }

  bool has_closed(const peer_connection_ptr& peer) const override { return closed.contains(peer); }

  void send_heartbeat(const peer_connection_ptr& peer) override { ++heartbeats[peer]; }

  void fail(const peer_connection_ptr& peer, const std::string& reason) override {
    peer->become(peer_connection::state::dead);
    meeting.remove(peer);
    failed.push_back(peer->peer.node + ": " + reason);
  }

 protected:
  peer_meeting_test() { meeting.start("here:1", now); }

  static introduction peer(const std::string& node, const std::string& endpoint) {
    introduction result;
    result.node = node;
    result.endpoint = endpoint;
    return result;
  }

  /// A handshake has ended.
  /// @returns the connection; null if it does not stay
  peer_connection_ptr meet(const introduction& who, const std::string& dialled) {
    dialling.erase(dialled);
    if (!meeting.keeps(who, dialled))
      return nullptr;
    auto result = std::make_shared<peer_connection>(++last_token, settings.window);
    result->meet(who);
    result->dialled = dialled;
    result->become(peer_connection::state::up);
    meeting.add(result, now);
    meeting.settle(result);
    return result;
  }

  peer_connection_ptr come_in(const introduction& who) {
    return meeting.admit(who) ? nullptr : meet(who, {});
  }

  void connect(const std::string& endpoint, clock::duration within = 10s) {
    meeting.connect(endpoint, now + within,
                    [this](fabric::connection found) { answers.push_back(std::move(found)); });
  }

  void miss(const std::string& endpoint, std::optional<refusal> reason, const std::string& node = {}) {
    dialling.erase(endpoint);
    meeting.missed(endpoint, "no", reason, node, now);
  }

  /// Time passes, and the process runs.
  void pass(clock::duration time) {
    for (const auto end = now + time; now < end;) {
      now += peer_meeting::tick_interval;
      meeting.tick(now);
    }
  }

  std::optional<refusal> refusal_of(const introduction& who) {
    const auto no = meeting.admit(who);
    return no ? std::optional{no->first} : std::nullopt;
  }

  fabric_settings settings = settings_of("m");
  clock::time_point now{1h};
  std::uint64_t last_token = 0;
  int num_dialled = 0;
  std::set<std::string> dialling;
  std::set<peer_connection_ptr> closed;
  std::map<peer_connection_ptr, int> heartbeats;
  std::vector<std::string> failed;
  std::vector<fabric::connection> answers;
  peer_meeting meeting{settings, *this};
};

TEST_F(peer_meeting_test, those_that_ask_for_an_endpoint_share_one_attempt) {
  connect("there:1");
  connect("there:1");
  EXPECT_EQ(num_dialled, 1);
  EXPECT_TRUE(answers.empty());
  const auto there = meet(peer("a", "there:1"), "there:1");
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].peer, there);
  EXPECT_EQ(answers[1].peer, there);
  connect("there:1");
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[2].peer, there);
  EXPECT_EQ(num_dialled, 1);
}

TEST_F(peer_meeting_test, an_endpoint_of_this_process_is_itself) {
  connect("here:1");
  connect("localhost:1"); // another name of it: the handshake shows
  ASSERT_EQ(dialling, std::set<std::string>{"localhost:1"});
  EXPECT_EQ(refusal_of(peer("m", "here:1")), refusal::self);
  miss("localhost:1", refusal::self, "m");
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_TRUE(answers[0].self);
  EXPECT_TRUE(answers[1].self);
}

TEST_F(peer_meeting_test, a_failed_attempt_says_why) {
  connect("there:1");
  miss("there:1", std::nullopt);
  connect("nonsense");
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].error, "cannot connect to there:1: no");
  EXPECT_EQ(answers[1].error, "no endpoint");
}

TEST_F(peer_meeting_test, an_attempt_ends_with_the_last_deadline_of_those_that_wait) {
  connect("there:1", 1s);
  connect("there:1", 2s);
  pass(1s);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].error, "no connection within the deadline");
  EXPECT_TRUE(dialling.contains("there:1"));
  pass(1s);
  EXPECT_EQ(answers.size(), 2U);
  EXPECT_TRUE(dialling.empty());
}

TEST_F(peer_meeting_test, of_two_that_dial_each_other_the_lower_node_wins) {
  connect("higher:1");
  EXPECT_EQ(refusal_of(peer("z", "higher:1")), refusal::connected);
  EXPECT_TRUE(dialling.contains("higher:1"));
  connect("lower:1");
  const auto lower = come_in(peer("a", "lower:1"));
  ASSERT_TRUE(lower);
  EXPECT_FALSE(dialling.contains("lower:1"));
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].peer, lower);
}

TEST_F(peer_meeting_test, the_refused_one_waits_for_the_other_connection_and_dials_again_if_none_comes) {
  connect("lower:1");
  miss("lower:1", refusal::connected, "a");
  EXPECT_TRUE(answers.empty());
  pass(100ms);
  EXPECT_EQ(num_dialled, 2);
  come_in(peer("a", "elsewhere:1")); // its endpoint does not show which attempt this ends
  miss("lower:1", refusal::connected, "a");
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_TRUE(answers[0].peer);
}

TEST_F(peer_meeting_test, of_two_connections_under_different_endpoints_the_lower_node_s_stays) {
  connect("other-name:1");
  const auto lower = come_in(peer("a", "lower:1"));
  EXPECT_FALSE(meet(peer("a", "lower:1"), "other-name:1"));
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].peer, lower);
  connect("third-name:1");
  const auto higher = come_in(peer("z", "higher:1"));
  EXPECT_TRUE(meet(peer("z", "higher:1"), "third-name:1"));
  EXPECT_EQ(higher->current(), peer_connection::state::dead);
  EXPECT_EQ(failed, std::vector<std::string>{"z: superseded by the connection that takes precedence"});
  EXPECT_EQ(meeting.peers().size(), 2U);
}

TEST_F(peer_meeting_test, a_peer_that_dials_again_has_given_up_its_old_connection) {
  const auto old = come_in(peer("z", "there:1"));
  const auto fresh = come_in(peer("z", "there:1"));
  ASSERT_TRUE(fresh);
  EXPECT_EQ(old->current(), peer_connection::state::dead);
  EXPECT_EQ(meeting.peers(), std::vector<peer_connection_ptr>{fresh});
}

TEST_F(peer_meeting_test, a_connection_that_this_process_dialled_stays_unless_the_peer_has_closed_it) {
  connect("there:1");
  const auto old = meet(peer("z", "there:1"), "there:1");
  EXPECT_EQ(refusal_of(peer("z", "there:1")), refusal::connected);
  EXPECT_EQ(old->current(), peer_connection::state::up);
  closed.insert(old);
  EXPECT_TRUE(come_in(peer("z", "there:1")));
  EXPECT_EQ(old->current(), peer_connection::state::dead);
}

TEST_F(peer_meeting_test, a_restarted_process_is_another_peer_at_the_same_endpoint) {
  connect("there:1");
  const auto old = meet(peer("z", "there:1"), "there:1");
  const auto fresh = come_in(peer("y", "there:1"));
  EXPECT_EQ(old->current(), peer_connection::state::up) << "its own end shows that it is gone";
  fail(old, "the connection closed");
  connect("there:1");
  EXPECT_EQ(answers.back().peer, fresh);
}

TEST_F(peer_meeting_test, a_silent_peer_fails_and_one_that_speaks_does_not) {
  const auto silent = come_in(peer("a", "a:1"));
  const auto alive = come_in(peer("b", "b:1"));
  for (int i = 0; i < 6; ++i) {
    pass(500ms);
    alive->last_heard = now;
  }
  EXPECT_EQ(failed, std::vector<std::string>{"a: silent for 2000 ms"});
  EXPECT_EQ(meeting.peers(), std::vector<peer_connection_ptr>{alive});
}

TEST_F(peer_meeting_test, a_heartbeat_goes_out_each_interval) {
  const auto one = come_in(peer("a", "a:1"));
  pass(peer_meeting::tick_interval);
  EXPECT_EQ(heartbeats[one], 1);
  pass(1500ms);
  EXPECT_EQ(heartbeats[one], 4);
}

TEST_F(peer_meeting_test, time_in_which_this_process_was_stopped_is_no_silence_of_its_peers) {
  come_in(peer("a", "a:1"));
  pass(1s);
  now += 1h;
  pass(500ms);
  EXPECT_TRUE(failed.empty());
  pass(1s);
  EXPECT_EQ(failed.size(), 1U);
}

} // namespace
} // namespace troupe::wire
