#include "actors/transport/wire/window.hpp"

#include <gtest/gtest.h>

namespace troupe::wire {
namespace {

TEST(window_test, refuses_what_does_not_fit_and_recovers) {
  send_window x{{1000, 10}};
  EXPECT_TRUE(x.charge(600, 1));
  EXPECT_FALSE(x.charge(600, 1));
  EXPECT_EQ(x.bytes_under_way(), 600U);
  EXPECT_TRUE(x.charge(400, 1));
  EXPECT_TRUE(x.acknowledge(1, 600));
  EXPECT_TRUE(x.charge(600, 1));
  EXPECT_EQ(x.bytes_under_way(), 1000U);
  EXPECT_EQ(x.frames_under_way(), 2U);
}

TEST(window_test, answers_have_a_second_window) {
  send_window x{{1000, 10}};
  EXPECT_TRUE(x.charge(1000, 1));
  EXPECT_FALSE(x.charge(1, 1));
  EXPECT_TRUE(x.charge(1000, 2));
  EXPECT_FALSE(x.charge(1, 2));
}

TEST(window_test, counts_frames_as_well) {
  send_window x{{1000, 2}};
  EXPECT_TRUE(x.charge(1, 1));
  EXPECT_TRUE(x.charge(1, 1));
  EXPECT_FALSE(x.charge(1, 1));
}

TEST(window_test, a_frame_larger_than_the_window_goes_alone) {
  send_window x{{1000, 2}};
  EXPECT_TRUE(x.charge(5000, 1));
  EXPECT_FALSE(x.charge(1, 1));
  EXPECT_TRUE(x.acknowledge(1, 5000));
  EXPECT_TRUE(x.charge(1, 1));
  EXPECT_FALSE(x.charge(5000, 1));
}

TEST(window_test, takes_the_smaller_of_both_sides) {
  send_window x{{1000, 20}};
  x.limit({2000, 10});
  EXPECT_EQ(x.size().bytes, 1000U);
  EXPECT_EQ(x.size().frames, 10U);
}

TEST(window_test, believes_no_acknowledgement_of_what_was_never_sent) {
  send_window x{{1000, 10}};
  EXPECT_TRUE(x.charge(100, 1));
  EXPECT_FALSE(x.acknowledge(2, 100));
  EXPECT_FALSE(x.acknowledge(1, 101));
  EXPECT_TRUE(x.acknowledge(1, 100));
  // An older pair by the slower channel changes nothing.
  EXPECT_TRUE(x.acknowledge(0, 0));
  EXPECT_EQ(x.bytes_under_way(), 0U);
}

TEST(receive_window_test, holds_the_sender_to_its_window) {
  receive_window x{{1000, 4}};
  EXPECT_TRUE(x.arrive(1000, 0));
  EXPECT_TRUE(x.arrive(1000, 0));
  EXPECT_FALSE(x.arrive(1, 0)) << "two windows";
  receive_window large{{1000, 4}};
  EXPECT_TRUE(large.arrive(5000, 5000));
  EXPECT_FALSE(large.arrive(1, 5000));
  receive_window many{{1000, 4}};
  for (int i = 0; i < 9; ++i)
    EXPECT_TRUE(many.arrive(1, 0));
  EXPECT_FALSE(many.arrive(1, 0));
}

TEST(receive_window_test, what_has_been_handled_may_come_again) {
  receive_window x{{1000, 4}};
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(x.arrive(2000, 0));
    x.handle(2000);
  }
  EXPECT_EQ(x.handled().frames, 100U);
  EXPECT_EQ(x.handled().bytes, 200'000U);
}

TEST(receive_window_test, tells_at_a_quarter_and_once) {
  receive_window x{{1000, 100}};
  EXPECT_FALSE(x.handle(249));
  EXPECT_TRUE(x.handle(1));
  EXPECT_FALSE(x.handle(500)) << "somebody is telling it";
  const auto told = x.told();
  EXPECT_EQ(told.frames, 3U);
  EXPECT_EQ(told.bytes, 750U);
  EXPECT_FALSE(x.handle(249));
  EXPECT_TRUE(x.handle(1));
}

TEST(receive_window_test, tells_by_the_number_of_messages_too) {
  receive_window x{{1000, 8}};
  EXPECT_FALSE(x.handle(1));
  EXPECT_TRUE(x.handle(1));
}

} // namespace
} // namespace troupe::wire
