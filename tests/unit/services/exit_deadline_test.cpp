#include "services/startup/exit_deadline.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>

namespace troupe {
namespace {

using namespace std::chrono_literals;

TEST(exit_deadline_death, ends_a_process_that_waits_for_ever) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        exit_within(10ms, process_log("me"));
        std::promise<void>().get_future().wait_for(1h);
      },
      testing::ExitedWithCode(1), "stop-late");
}

TEST(exit_deadline_death, leaves_one_alone_that_ends_in_time) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        exit_within(1h, process_log("me"));
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

} // namespace
} // namespace troupe
