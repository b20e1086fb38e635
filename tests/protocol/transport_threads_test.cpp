// The threads that run actors woken by messages from other processes, and what they must not block.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include "actors/transport/caf/follow_up.hpp"
#include "tests/protocol/transport_fixture.hpp"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

/// Signals between an actor, on any thread, and the test.
struct latch {
  std::promise<void> reached;
  std::promise<void> gate;
  std::shared_future<void> opened{gate.get_future()};
};

caf::behavior waiting_actor(caf::event_based_actor* self, latch* x) {
  return {[self, x](std::int32_t value) {
    x->reached.set_value();
    x->opened.wait_for(patience);
    self->quit();
    return value;
  }};
}

/// Shared, because a waiting step may still be returning when the test continues.
struct step_latch : latch {
  latch* holds_actor = nullptr; ///< the actor waits for it before it returns
  std::thread::id actor_ran;
  std::thread::id step_ran;
};

/// Leaves waiting to its thread, if that allows it.
/// @returns whether it does
caf::behavior leaving_actor(caf::event_based_actor* self, std::shared_ptr<step_latch> x) {
  return {[self, x = std::move(x)](std::int32_t) {
    auto* left = follow_up::of_this_thread();
    if (left == nullptr)
      return false;
    x->actor_ran = std::this_thread::get_id();
    left->leave([x] {
      x->step_ran = std::this_thread::get_id();
      x->reached.set_value();
      x->opened.wait_for(patience);
    });
    if (x->holds_actor != nullptr) {
      x->holds_actor->reached.set_value();
      x->holds_actor->opened.wait_for(patience);
    }
    self->quit();
    return true;
  }};
}

bool echoes(node& from, const server_actor& to, std::chrono::milliseconds deadline) {
  caf::scoped_actor self{from.system};
  bool ok = false;
  self->request(to, deadline, batch{1, "", {}})
      .receive([&](batch& x) { ok = x.id == 2; }, [](caf::error&) {});
  return ok;
}

TEST(transport_threads_test, a_message_needs_no_thread_of_the_scheduler) {
  node here;
  node there;
  // More than one, because the receiving thread may just then be passing actors to the scheduler.
  std::vector<server_actor> local;
  std::vector<server_actor> servers;
  for (int i = 0; i < 20; ++i) {
    const auto name = "server-" + std::to_string(i);
    local.push_back(spawn_server(there.system));
    there.net->publish(name, local.back());
    servers.push_back(here.server_at(there.net->endpoint(), name));
  }
  // One for each thread of the scheduler.
  std::vector<latch> busy(there.system.scheduler().num_workers());
  for (auto& x : busy) {
    caf::anon_send(there.system.spawn(waiting_actor, &x), std::int32_t{0});
    ASSERT_EQ(x.reached.get_future().wait_for(patience), std::future_status::ready);
  }
  bool any = false;
  for (std::size_t i = 0; i < servers.size() && !any; ++i)
    any = echoes(here, servers[i], 1s);
  EXPECT_TRUE(any);
  for (auto& x : busy)
    x.gate.set_value();
  for (const auto& server : servers)
    EXPECT_TRUE(echoes(here, server, patience));
  for (const auto& server : local)
    caf::anon_send_exit(server, caf::exit_reason::user_shutdown);
}

/// A server that answers while another actor of its process occupies a thread.
class busy_network_test : public ::testing::Test {
 protected:
  ~busy_network_test() override { caf::anon_send_exit(local_, caf::exit_reason::user_shutdown); }

  bool answers() { return echoes(here_, server_, patience); }

  /// Publishes `whom`, replacing the one before.
  /// @returns its handle here
  caf::actor publish(const caf::actor& whom) {
    there_.net->publish("busy", whom);
    const auto found = here_.resolve(there_.net->endpoint(), "busy");
    return found ? caf::actor_cast<caf::actor>(*found) : caf::actor{};
  }

  /// Repeats until the actor has run on a thread that lends itself: the receiving one may just then be
  /// passing actors to the scheduler, whose threads do not lend themselves.
  bool leaves_a_step(const caf::actor& to) {
    caf::scoped_actor self{here_.system};
    return eventually([&] {
      bool left = false;
      self->request(to, patience, std::int32_t{0})
          .receive([&](bool x) { left = x; }, [](caf::error&) { ADD_FAILURE(); });
      return left;
    });
  }

  static bool reached(latch& x) {
    return x.reached.get_future().wait_for(patience) == std::future_status::ready;
  }

  server_actor published() {
    there_.net->publish("server", local_);
    return here_.server_at(there_.net->endpoint());
  }

  node here_;
  node there_;
  server_actor local_ = spawn_server(there_.system);
  server_actor server_ = published();
};

TEST_F(busy_network_test, an_actor_that_takes_long_does_not_stop_the_network) {
  // Repeated: the thread that took over must be relieved as well.
  for (int round = 0; round < 3; ++round) {
    latch slow;
    const auto busy = publish(there_.system.spawn(waiting_actor, &slow));
    ASSERT_TRUE(busy);
    caf::scoped_actor self{here_.system};
    auto answer = self->request(busy, patience, std::int32_t{round});
    ASSERT_TRUE(reached(slow));
    EXPECT_TRUE(answers());
    slow.gate.set_value();
    answer.receive([&](std::int32_t x) { EXPECT_EQ(x, round); }, [](caf::error&) { ADD_FAILURE(); });
    EXPECT_TRUE(answers());
  }
}

TEST_F(busy_network_test, nor_does_what_an_actor_leaves_to_its_thread) {
  for (int round = 0; round < 3; ++round) {
    const auto step = std::make_shared<step_latch>();
    const auto busy = publish(there_.system.spawn(leaving_actor, step));
    ASSERT_TRUE(busy);
    ASSERT_TRUE(leaves_a_step(busy));
    ASSERT_TRUE(reached(*step));
    EXPECT_EQ(step->actor_ran, step->step_ran);
    EXPECT_TRUE(answers());
    step->gate.set_value();
    EXPECT_TRUE(answers());
  }
}

TEST_F(busy_network_test, a_thread_that_is_relieved_does_what_was_left_to_it) {
  latch slow;
  const auto step = std::make_shared<step_latch>();
  step->holds_actor = &slow;
  const auto busy = publish(there_.system.spawn(leaving_actor, step));
  ASSERT_TRUE(busy);
  auto left = std::async(std::launch::async, [&] { return leaves_a_step(busy); });
  ASSERT_TRUE(reached(slow));
  EXPECT_TRUE(answers()); // by another thread
  slow.gate.set_value();
  EXPECT_TRUE(left.get());
  ASSERT_TRUE(reached(*step));
  EXPECT_EQ(step->actor_ran, step->step_ran);
  step->gate.set_value();
  EXPECT_TRUE(answers());
}

TEST(transport_threads_test, leaving_waits_for_the_actor_and_not_for_the_network) {
  node here;
  latch slow;
  auto there = std::make_unique<node>();
  there->net->publish("slow", there->system.spawn(waiting_actor, &slow));
  const auto found = here.resolve(there->net->endpoint(), "slow");
  ASSERT_TRUE(found);
  caf::scoped_actor self{here.system};
  auto answer = self->request(caf::actor_cast<caf::actor>(*found), patience, std::int32_t{0});
  ASSERT_EQ(slow.reached.get_future().wait_for(patience), std::future_status::ready);
  auto gone = std::async(std::launch::async, [&] { there->net.reset(); });
  // The peer's end reaches us while its actor still runs.
  caf::error reason;
  answer.receive([](std::int32_t) { ADD_FAILURE(); }, [&](caf::error& err) { reason = std::move(err); });
  EXPECT_EQ(reason, caf::exit_reason::remote_link_unreachable);
  slow.gate.set_value();
  EXPECT_EQ(gone.wait_for(patience), std::future_status::ready);
}

} // namespace
} // namespace troupe::test
