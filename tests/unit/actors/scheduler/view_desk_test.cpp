// What is published when, and to whom.
#include <gtest/gtest.h>

#include "actors/scheduler/view_desk.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/scheduler/start_time.hpp"

namespace troupe {
namespace {

struct view_desk_test : testing::Test {
  view_messages publish(std::uint64_t term = 1, const std::vector<worker_address>& missed = {},
                        time_point now = start_time) {
    return views.publish({{term, views.next_epoch(), {}}, {}}, members, {true, 500}, missed, now);
  }

  member_table members;
  view_desk views;
};

TEST_F(view_desk_test, a_change_of_workers_wants_a_publication) {
  EXPECT_FALSE(views.has_changed());
  members.join(attention_hello(1), start_time);
  views.worker_changed({1});
  EXPECT_TRUE(views.has_changed());
  const auto messages = publish();
  EXPECT_FALSE(views.has_changed());
  EXPECT_EQ(messages.with_layers->joined.size(), 1U);
  EXPECT_TRUE(views.published().ready);
  EXPECT_EQ(views.published().max_model_len, 500U);
  views.restart_epochs();
  EXPECT_TRUE(views.has_changed());
  EXPECT_TRUE(views.is_first());
  EXPECT_EQ(publish(2).with_layers->from_epoch, 0U) << "a new term begins with the whole view";
  EXPECT_EQ(views.published().experts.epoch, 1U);
}

TEST_F(view_desk_test, a_publication_is_recent_while_changes_are_gathered) {
  EXPECT_FALSE(views.has_published());
  EXPECT_FALSE(views.has_just_published(start_time));
  publish();
  EXPECT_TRUE(views.has_published());
  EXPECT_TRUE(views.has_just_published(start_time + defaults::gather_changes - std::chrono::nanoseconds{1}));
  EXPECT_FALSE(views.has_just_published(start_time + defaults::gather_changes));
}

TEST_F(view_desk_test, the_whole_view_is_for_attention_workers_and_gateways) {
  publish();
  EXPECT_EQ(views.whole(worker_role::attention)->epoch, 1U);
  publish();
  EXPECT_EQ(views.whole(worker_role::gateway)->epoch, 2U);
  EXPECT_EQ(views.whole(worker_role::expert)->epoch, 0U);
}

TEST_F(view_desk_test, a_missed_worker_stays_until_it_is_given_up) {
  const auto missed = attention_hello(1).address;
  EXPECT_EQ(publish(1, {missed}).with_layers->joined.size(), 1U);
  views.worker_changed({1});
  EXPECT_TRUE(publish(1, {missed}).with_layers->left.empty());
  views.worker_changed({1});
  EXPECT_EQ(publish().with_layers->left, (std::vector<worker_id>{{1}}));
}

} // namespace
} // namespace troupe
