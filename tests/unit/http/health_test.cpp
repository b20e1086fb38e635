// When a process counts as stuck, by the test's clock.
#include <chrono>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "services/gateway/http/health.hpp"

#include <boost/asio/io_context.hpp>

namespace troupe::http_test {

namespace {

using http::health;
using http::pool_progress;
using namespace std::chrono_literals;

class health_test : public testing::Test {
 protected:
  health::clock::time_point now = health::clock::now();
  pool_progress pool{{}, {}, now};
  health vitals{
      {.job = 30s, .stall = 60s, .late = 5s, .beat = 1ms}, [this] { return pool; }, [this] { return now; }};
};

TEST_F(health_test, work_that_runs_too_long_is_stuck) {
  pool.running_since = now;
  now += 30s;
  EXPECT_EQ(vitals.flaw(), "");
  now += 1ms;
  EXPECT_EQ(vitals.flaw(),
            "a request's text has been worked on for 30001 ms, which should end within 30000 ms");
  pool.running_since = now;
  EXPECT_EQ(vitals.flaw(), "");
}

TEST_F(health_test, a_long_wait_matters_when_nothing_ends) {
  pool.waiting_since = now;
  now += 61s;
  EXPECT_EQ(vitals.flaw(),
            "a request has waited for a text thread for 61000 ms, and no text work has ended for 61000 ms");
  pool.last_end = now - 1s;
  EXPECT_EQ(vitals.flaw(), "") << "others have their turns";
  pool.last_end = now - 61s;
  pool.waiting_since = now - 1s;
  EXPECT_EQ(vitals.flaw(), "") << "nobody has asked for anything";
}

TEST_F(health_test, an_idle_pool_is_well) {
  now += 24h;
  EXPECT_EQ(vitals.flaw(), "");
}

TEST_F(health_test, a_loop_that_does_not_turn_is_late) {
  boost::asio::io_context first{1}, second{1};
  vitals.watch(first);
  vitals.watch(second);
  now += 5s;
  EXPECT_EQ(vitals.flaw(), "");
  now += 1ms;
  const std::string late = "an event loop of the HTTP server has not turned for 5001 ms";
  EXPECT_EQ(vitals.flaw(), late);
  first.run_one();
  EXPECT_EQ(vitals.flaw(), late) << "the other one";
  second.run_one();
  EXPECT_EQ(vitals.flaw(), "");
}

TEST(health, a_loop_may_end_before_or_after) {
  std::optional<boost::asio::io_context> before{1};
  boost::asio::io_context after{1};
  {
    health vitals{{30s, 60s, 5s, 1ms}, [] { return pool_progress{}; }};
    vitals.watch(*before);
    vitals.watch(after);
    before.reset();
  }
  after.run();
  EXPECT_TRUE(after.stopped()) << "nobody watches it any more";
}

} // namespace

} // namespace troupe::http_test
