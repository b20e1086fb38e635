// An operator's word on tracing reaches all members, also those that join later.
#include "actors/cluster/trace_control.hpp"
#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

class scheduler_tracing_test : public scheduler_fixture {
 protected:
  caf::expected<trace_receipt> tell(uint32_t share_ppm) {
    return ask<trace_receipt>(caf::actor_cast<trace_control_actor>(scheduler), trace_command{share_ppm});
  }
};

TEST_F(scheduler_tracing_test, tells_all_members_and_answers_with_what_they_say) {
  start_ready(2);
  peers.back().log->trace_error = "no folder";
  const auto receipt = tell(10'000);
  ASSERT_TRUE(receipt);
  ASSERT_EQ(receipt->processes.size(), 4U); // the scheduler's own, too
  size_t refused = 0;
  for (const auto& process : receipt->processes)
    refused += process.error == "no folder" ? 1 : 0;
  EXPECT_EQ(refused, 1U);
  for (const auto& one : peers)
    EXPECT_EQ(one.log->traced, std::vector<trace_command>{{10'000}});
}

TEST_F(scheduler_tracing_test, tells_those_that_join_later) {
  start_ready(1);
  EXPECT_TRUE(join(expert_hello(18)).log->traced.empty());
  ASSERT_TRUE(tell(10'000));
  EXPECT_EQ(join(expert_hello(19)).log->traced, std::vector<trace_command>{{10'000}});
  ASSERT_TRUE(tell(0));
  EXPECT_EQ(join(expert_hello(20)).log->traced, std::vector<trace_command>{{0}});
}

} // namespace
} // namespace troupe
