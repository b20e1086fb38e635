#include "services/startup/descriptor_limit.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace troupe {
namespace {

TEST(descriptor_limit, is_raised_to_the_hard_one) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(raise_descriptor_limit(), before.rlim_max);
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
}

TEST(descriptor_limit, leaves_descriptors_for_what_is_no_connection) {
  EXPECT_EQ(connections_that_fit(1024, 1 << 20), 1024U);
  EXPECT_EQ(connections_that_fit(1024, 1280), 1024U);
  EXPECT_EQ(connections_that_fit(1024, 1279), 1023U);
  EXPECT_EQ(connections_that_fit(1024, 512), 256U);
  EXPECT_EQ(connections_that_fit(10, 512), 10U);
  EXPECT_EQ(connections_that_fit(10, 1), 1U);
}

} // namespace
} // namespace troupe
