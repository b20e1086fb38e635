// What operators order passes through the gateway: to the rebalancer, and its answers back.
#include <gmock/gmock.h>

#include "actors/rebalancer/rebalancer.hpp"
#include "tests/unit/actors/gateway/gateway_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// A rebalancer that plays a part.
struct rebalancer_script {
  caf::error refusal{};   ///< of commands; none: they are obeyed
  bool is_silent = false; ///< commands are taken and never answered
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

class passing_commands_on : public gateway_test {
 protected:
  void start_rebalancer() {
    rebalancer = root(system.spawn(scripted_rebalancer, log));
    caf::anon_send(directory, caf::publish_atom_v, "rebalancer",
                   caf::actor_cast<caf::strong_actor_ptr>(rebalancer));
    run();
  }

  caf::expected<placement_change> drain(bool is_dry = false) {
    placement_command asked;
    asked.action = placement_action::drain;
    asked.worker = "expert-1";
    asked.dry_run = is_dry;
    return ask_within<placement_change>(defaults::placement_command + 1s, gateway, asked);
  }

  std::shared_ptr<rebalancer_script> log = std::make_shared<rebalancer_script>();
  rebalancer_actor rebalancer;
};

TEST_F(passing_commands_on, and_their_answers_back) {
  const auto status = [this] { return ask<rebalancer_status>(gateway, placement_atom_v); };
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

TEST_F(passing_commands_on, once_even_where_nobody_answers) {
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

TEST_F(passing_commands_on, says_so_when_it_is_gone_before_the_answer) {
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
