// Questions of operators reach their services, and the answers come back.
#include "actors/gateway/control_client.hpp"

#include <optional>

#include <gmock/gmock.h>

#include "actors/protocol/history_actor.hpp"
#include "actors/protocol/rebalancer_actor.hpp"
#include "tests/unit/actors/gateway/gateway_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// A scripted rebalancer.
struct rebalancer_script {
  caf::error refusal{};   ///< of commands; none: they are obeyed
  bool is_silent = false; ///< commands are never answered
  std::vector<placement_command> commands{};
};

struct scripted_rebalancer_state {
  static inline const char* name = "scripted_rebalancer";
  std::vector<caf::typed_response_promise<placement_change>> unanswered;
};

rebalancer_actor::behavior_type
scripted_rebalancer(rebalancer_actor::stateful_pointer<scripted_rebalancer_state> self,
                    const std::shared_ptr<rebalancer_script>& script) {
  return {[self, script](const placement_command& asked) -> caf::result<placement_change> {
            script->commands.push_back(asked);
            if (script->refusal)
              return script->refusal;
            if (!script->is_silent)
              return placement_change{5, asked.worker, 0, 0, {}, {}, {}};
            self->state.unanswered.push_back(self->make_response_promise<placement_change>());
            return self->state.unanswered.back();
          },
          [](status_atom) {
            rebalancer_status status;
            status.mode = planner_mode::paused;
            return status;
          },
          [](caf::tick_atom) {}};
}

class control_client_test : public gateway_test {
 protected:
  void publish(const char* service, const caf::strong_actor_ptr& actor) {
    caf::anon_send(directory, caf::publish_atom_v, service, actor);
    run();
  }

  void start_rebalancer() {
    rebalancer = root(system.spawn(scripted_rebalancer, log));
    publish("rebalancer", caf::actor_cast<caf::strong_actor_ptr>(rebalancer));
  }

  template <class Answer>
  caf::expected<Answer> ask_for(const control_question& question, std::chrono::seconds patience = 20s) {
    std::optional<caf::expected<control_answer>> heard;
    ask_service(system, {directory}, question, [&heard](auto answer) { heard = std::move(answer); });
    run();
    if (!heard)
      advance(patience);
    EXPECT_TRUE(heard);
    if (!*heard)
      return heard->error();
    return std::get<Answer>(**heard);
  }

  caf::expected<placement_change> drain(bool is_dry = false) {
    placement_command asked;
    asked.action = placement_action::drain;
    asked.worker = "expert-1";
    asked.dry_run = is_dry;
    return ask_for<placement_change>(asked, defaults::placement_command + 1s);
  }

  std::shared_ptr<rebalancer_script> log = std::make_shared<rebalancer_script>();
  rebalancer_actor rebalancer;
};

TEST_F(control_client_test, asks_the_scheduler_for_its_status) {
  const auto status = [this] { return ask_for<scheduler_status>(status_question{}); };
  EXPECT_EQ(text_of(status().error()), "the scheduler is away");
  start_scheduler();
  publish("scheduler", caf::actor_cast<caf::strong_actor_ptr>(scheduler));
  EXPECT_EQ(status()->term, 4U);
  script->answers_status = false;
  EXPECT_EQ(code_of(status().error()), ec::not_ready);
  script->answers_status = true;
  kill(scheduler);
  EXPECT_EQ(code_of(status().error()), ec::not_ready);
}

TEST_F(control_client_test, asks_for_the_history) {
  const auto known = [this] { return ask_for<history_snapshot>(history_question{3}); };
  EXPECT_EQ(code_of(known().error()), ec::not_ready) << "nobody is there";
  const auto history = root(system.spawn([](history_actor::pointer) -> history_actor::behavior_type {
    return {[](const activation_report&) { return activation_receipt{}; },
            [](history_atom, std::uint32_t windows) {
              history_snapshot result;
              result.tokens = windows;
              return result;
            },
            [](caf::tick_atom) {}};
  }));
  publish("history", caf::actor_cast<caf::strong_actor_ptr>(history));
  const auto answer = known();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->tokens, 3U) << "as many windows as were asked for";
}

TEST_F(control_client_test, carries_commands_and_their_answers) {
  const auto status = [this] { return ask_for<rebalancer_status>(placement_question{}); };
  EXPECT_EQ(code_of(drain().error()), ec::not_ready) << "nobody is there";
  EXPECT_EQ(code_of(status().error()), ec::not_ready);
  start_rebalancer();
  const auto change = drain();
  ASSERT_TRUE(change);
  EXPECT_EQ(change->id, 5U);
  EXPECT_EQ(change->reason, "expert-1");
  const auto known = status();
  ASSERT_TRUE(known);
  EXPECT_EQ(known->mode, planner_mode::paused);
  log->refusal = make_error(ec::bad_request, "no expert worker is named 'expert-1'");
  const auto refused = drain();
  EXPECT_EQ(code_of(refused.error()), ec::bad_request);
  EXPECT_EQ(text_of(refused.error()), "no expert worker is named 'expert-1'");
  EXPECT_EQ(log->commands.size(), 2U);
}

TEST_F(control_client_test, sends_a_command_once_even_without_an_answer) {
  start_rebalancer();
  log->is_silent = true;
  const auto late = drain();
  EXPECT_EQ(code_of(late.error()), ec::deadline_exceeded);
  EXPECT_THAT(text_of(late.error()), testing::HasSubstr("may have been carried out"));
  EXPECT_EQ(log->commands.size(), 1U);
  const auto dry = drain(true);
  EXPECT_EQ(code_of(dry.error()), ec::deadline_exceeded);
  EXPECT_THAT(text_of(dry.error()), testing::HasSubstr("nothing has been changed"));
  EXPECT_EQ(log->commands.size(), 2U);
}

TEST_F(control_client_test, says_so_when_the_rebalancer_is_gone_before_its_answer) {
  start_rebalancer();
  log->refusal =
      caf::make_error(caf::exit_reason::remote_link_unreachable); // what a lost connection looks like
  const auto lost = drain();
  EXPECT_EQ(code_of(lost.error()), ec::peer_down);
  EXPECT_THAT(text_of(lost.error()), testing::HasSubstr("may have been carried out"));
  EXPECT_EQ(log->commands.size(), 1U);
}

} // namespace
} // namespace troupe
