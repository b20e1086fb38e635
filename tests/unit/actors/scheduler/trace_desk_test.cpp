// Which trace command applies.
#include <gtest/gtest.h>

#include "actors/scheduler/trace_desk.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"

namespace troupe {
namespace {

worker_hello back(std::uint64_t id) {
  auto hello = expert_hello(id);
  hello.term = 1;
  return hello;
}

TEST(trace_desk, a_saved_command_applies_when_a_worker_of_the_cluster_is_back) {
  trace_desk traces;
  traces.restore({7});
  EXPECT_FALSE(traces.joined(expert_hello(11)));
  EXPECT_FALSE(traces.current());
  const auto event = traces.joined(back(12));
  ASSERT_TRUE(event);
  EXPECT_EQ(event->text, "traces 7 of a million requests, as the scheduler before was told");
  EXPECT_EQ(traces.current(), trace_command{7});
  EXPECT_FALSE(traces.joined(back(13))) << "it is told already";
}

TEST(trace_desk, a_saved_command_ends_with_the_first_view_and_with_a_new_command) {
  trace_desk traces;
  traces.restore({7});
  traces.published();
  EXPECT_FALSE(traces.joined(back(11)));
  traces.restore({7});
  EXPECT_EQ(traces.command({0}).text, "stops, as told");
  EXPECT_FALSE(traces.joined(back(11)));
  EXPECT_EQ(traces.current(), trace_command{0});
}

TEST(trace_answers, answers_once_with_all_receipts) {
  std::vector<trace_receipt> answered;
  trace_answers receipts{2, [&answered](const trace_receipt& all) { answered.push_back(all); }};
  receipts.add({{{"scheduler", ""}}});
  EXPECT_TRUE(answered.empty());
  receipts.add({{{"expert-11", "it is full"}}});
  ASSERT_EQ(answered.size(), 1U);
  EXPECT_EQ(answered.front(), (trace_receipt{{{"scheduler", ""}, {"expert-11", "it is full"}}}));
}

} // namespace
} // namespace troupe
