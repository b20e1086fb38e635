#include "actors/gateway/session_policy.hpp"

#include <gtest/gtest.h>

#include "actors/protocol/defaults.hpp"

namespace troupe {
namespace {

std::vector<generated_token> tokens(std::initializer_list<std::int32_t> ids) {
  std::vector<generated_token> result;
  for (auto id : ids)
    result.push_back({.token = id, .logprob = 0.0F, .rank = 0, .top = {}});
  return result;
}

TEST(choice_log, takes_tokens_in_order) {
  choice_log log;
  auto first = tokens({1, 2});
  auto second = tokens({3});
  EXPECT_EQ(log.accept(0, first), choice_log::verdict::fresh);
  EXPECT_EQ(log.accept(2, second), choice_log::verdict::fresh);
  EXPECT_EQ(log.tokens(), (std::vector<std::int32_t>{1, 2, 3}));
}

TEST(choice_log, leaves_only_what_is_new) {
  choice_log log;
  auto first = tokens({1, 2, 3});
  auto overlapping = tokens({2, 3, 4, 5});
  auto known = tokens({3, 4});
  EXPECT_EQ(log.accept(0, first), choice_log::verdict::fresh);
  EXPECT_EQ(log.accept(1, overlapping), choice_log::verdict::fresh);
  EXPECT_EQ(overlapping, tokens({4, 5}));
  EXPECT_EQ(log.accept(2, known), choice_log::verdict::duplicate);
  EXPECT_TRUE(known.empty());
  EXPECT_EQ(log.tokens(), (std::vector<std::int32_t>{1, 2, 3, 4, 5}));
}

TEST(choice_log, takes_nothing_behind_a_gap) {
  choice_log log;
  auto late = tokens({7});
  EXPECT_EQ(log.accept(1, late), choice_log::verdict::gap);
  EXPECT_TRUE(log.tokens().empty());
}

TEST(replay, is_for_failures_of_the_worker_alone) {
  for (auto code : {ec::peer_down, ec::overloaded, ec::not_ready, ec::engine_failed, ec::shutting_down})
    EXPECT_TRUE(is_retryable(code)) << to_string(code);
  for (auto code : {ec::none, ec::not_hosted, ec::bad_request, ec::context_exceeded, ec::deadline_exceeded,
                    ec::cancelled, ec::stale_term, ec::incompatible})
    EXPECT_FALSE(is_retryable(code)) << to_string(code);
}

TEST(replay, is_immediate_first_and_then_backs_off_to_a_bound) {
  using std::chrono::milliseconds;
  EXPECT_EQ(replay_pause(1), milliseconds{0});
  EXPECT_EQ(replay_pause(2), milliseconds{defaults::reconnect_min});
  EXPECT_EQ(replay_pause(3), 2 * milliseconds{defaults::reconnect_min});
  EXPECT_EQ(replay_pause(defaults::max_attempts), milliseconds{defaults::reconnect_max});
}

} // namespace
} // namespace troupe
