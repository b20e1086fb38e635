// Which threads run actors that messages from other processes wake, and what that must not do.

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

#include "actors/transport/follow_up.hpp"
#include "tests/protocol/transport_fixture.hpp"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

/// What an actor tells, and waits for, on whatever thread runs it.
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

/// What waits as a step may still be on its way back when the test goes on: they share it.
struct step_latch : latch {
  std::thread::id actor_ran;
  std::thread::id step_ran;
};

/// Leaves to its thread to wait, where it has one that may. @returns whether it had
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
  // More than one, because the thread that receives may just then be giving actors to the scheduler.
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

TEST(transport_threads_test, an_actor_that_takes_long_does_not_stop_the_network) {
  node here;
  node there;
  const auto local = spawn_server(there.system);
  there.net->publish("server", local);
  const auto server = here.server_at(there.net->endpoint());
  // One after the other: the thread that took over must be relieved as well.
  for (int round = 0; round < 3; ++round) {
    latch slow;
    there.net->publish("slow", there.system.spawn(waiting_actor, &slow));
    const auto found = here.resolve(there.net->endpoint(), "slow");
    ASSERT_TRUE(found);
    caf::scoped_actor self{here.system};
    auto answer = self->request(caf::actor_cast<caf::actor>(*found), patience, std::int32_t{round});
    ASSERT_EQ(slow.reached.get_future().wait_for(patience), std::future_status::ready);
    EXPECT_TRUE(echoes(here, server, patience));
    slow.gate.set_value();
    answer.receive([&](std::int32_t x) { EXPECT_EQ(x, round); }, [](caf::error&) { ADD_FAILURE(); });
    EXPECT_TRUE(echoes(here, server, patience));
    there.net->unpublish("slow");
  }
  caf::anon_send_exit(local, caf::exit_reason::user_shutdown);
}

TEST(transport_threads_test, nor_does_what_an_actor_leaves_to_its_thread) {
  node here;
  node there;
  const auto local = spawn_server(there.system);
  there.net->publish("server", local);
  const auto server = here.server_at(there.net->endpoint());
  for (int round = 0; round < 3; ++round) {
    const auto step = std::make_shared<step_latch>();
    there.net->publish("leaving", there.system.spawn(leaving_actor, step));
    const auto found = here.resolve(there.net->endpoint(), "leaving");
    ASSERT_TRUE(found);
    caf::scoped_actor self{here.system};
    // The thread that receives may just then be giving actors to the scheduler, whose threads lend themselves
    // to nobody.
    ASSERT_TRUE(eventually([&] {
      bool left = false;
      self->request(caf::actor_cast<caf::actor>(*found), patience, std::int32_t{round})
          .receive([&](bool x) { left = x; }, [](caf::error&) { ADD_FAILURE(); });
      return left;
    }));
    ASSERT_EQ(step->reached.get_future().wait_for(patience), std::future_status::ready);
    EXPECT_EQ(step->actor_ran, step->step_ran);
    EXPECT_TRUE(echoes(here, server, patience));
    step->gate.set_value();
    EXPECT_TRUE(echoes(here, server, patience));
    there.net->unpublish("leaving");
  }
  caf::anon_send_exit(local, caf::exit_reason::user_shutdown);
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
