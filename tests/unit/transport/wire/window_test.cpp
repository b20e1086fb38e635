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

} // namespace
} // namespace troupe::wire
