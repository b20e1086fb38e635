#include "tests/unit/actors/deterministic_system.hpp"

#include <caf/typed_event_based_actor.hpp>

#include "actors/cluster/directory.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// Answers a number N with the virtual time of the request, after N milliseconds.
caf::behavior late(caf::event_based_actor* self) {
  return {[self](int milliseconds) {
            auto promise = self->make_response_promise<int>();
            self->delayed_send(self, std::chrono::milliseconds{milliseconds}, promise, milliseconds);
            return promise;
          },
          [](caf::typed_response_promise<int>& promise, int value) { promise.deliver(value); }};
}

} // namespace
} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(caf::typed_response_promise<int>)

namespace troupe {
namespace {

TEST_F(deterministic_system, time_moves_only_when_told) {
  const auto actor = root(system.spawn(late));
  const auto before = now();
  run();
  EXPECT_EQ(now(), before);
  advance(7ms);
  EXPECT_EQ(now() - before, 7ms);
  const auto answer = ask<int>(actor, 20);
  ASSERT_TRUE(answer);
  EXPECT_EQ(*answer, 20);
  EXPECT_EQ(now() - before, 27ms) << "an answer after 20 ms must take exactly 20 ms";
}

TEST_F(deterministic_system, a_missing_answer_is_a_timeout) {
  const auto actor = root(system.spawn(late));
  const auto answer = ask_within<int>(10ms, actor, 20);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error(), caf::sec::request_timeout);
  EXPECT_EQ(now(), 10ms);
  advance(1s);
}

TEST_F(deterministic_system, a_killed_actor_is_down_for_its_monitors) {
  const auto actor = root(system.spawn(late));
  auto reason = caf::error{};
  root(system.spawn([&](caf::event_based_actor* self) -> caf::behavior {
    self->monitor(actor);
    self->set_down_handler([&](const caf::down_msg& message) { reason = message.reason; });
    return {[](int) {}};
  }));
  run();
  EXPECT_FALSE(reason);
  kill(actor);
  EXPECT_EQ(reason, caf::exit_reason::kill);
}

TEST_F(deterministic_system, fires_in_the_order_of_time_and_lets_effects_run_between) {
  std::vector<int> order;
  const auto recorder = root(system.spawn([&](caf::event_based_actor* self) -> caf::behavior {
    return {[&order, self](int value) {
      order.push_back(value);
      if (value == 1)
        self->delayed_send(self, 1ms, 2);
    }};
  }));
  caf::delayed_anon_send(recorder, 3ms, 3);
  caf::delayed_anon_send(recorder, 1ms, 1);
  advance(5ms);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

} // namespace
} // namespace troupe
