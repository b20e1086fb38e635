#include "services/model/lost_device.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "services/startup/stop_signal.hpp"

namespace troupe {
namespace {

TEST(lost_device_death, ends_the_process_with_an_error_and_says_so_once) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        stop_signal stop;
        const auto report = end_for_lost_device(process_log("me"));
        report(std::runtime_error("cuda: wait for a stream: illegal access"));
        report(std::runtime_error("cuda: wait for a stream: again"));
        stop.wait(); // without a fault it would wait for ever
        std::_Exit(stop_signal::exit_status());
      },
      testing::ExitedWithCode(1), "device-lost: cuda: wait for a stream: illegal access[^\n]*\n$");
}

} // namespace
} // namespace troupe
