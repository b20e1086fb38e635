// Token buckets that refill by the minute.
#include "services/gateway/http/rate_limit.hpp"

#include <gtest/gtest.h>

namespace troupe::http {
namespace {

using namespace std::chrono_literals;
using seconds = token_bucket::seconds;

TEST(token_bucket, a_minutes_worth_is_there_at_once_and_comes_back_evenly) {
  token_bucket::time_point now{};
  token_bucket bucket{60, now};
  EXPECT_EQ(bucket.level(now), 60);
  bucket.charge(60, now);
  EXPECT_EQ(bucket.level(now), 0);
  EXPECT_EQ(bucket.wait_for(1, now), seconds{1});
  now += 10s;
  EXPECT_DOUBLE_EQ(bucket.level(now), 10);
  EXPECT_EQ(bucket.wait_for(10, now), seconds{0});
  now += 1h;
  EXPECT_EQ(bucket.level(now), 60) << "no more than that is saved up";
}

TEST(token_bucket, what_was_charged_beyond_it_is_paid_back) {
  token_bucket::time_point now{};
  token_bucket bucket{60, now};
  bucket.charge(120, now);
  EXPECT_EQ(bucket.level(now), -60);
  EXPECT_DOUBLE_EQ(bucket.wait_for(1, now).count(), 61);
  now += 61s;
  EXPECT_DOUBLE_EQ(bucket.level(now), 1);
}

TEST(token_bucket, more_than_a_minutes_worth_is_waited_for_until_it_is_full) {
  token_bucket::time_point now{};
  token_bucket bucket{60, now};
  bucket.charge(30, now);
  EXPECT_DOUBLE_EQ(bucket.wait_for(1000, now).count(), 30);
}

TEST(token_bucket, another_rate_keeps_what_is_left) {
  token_bucket::time_point now{};
  token_bucket bucket{60, now};
  bucket.charge(50, now);
  bucket.set_rate(600, now);
  EXPECT_EQ(bucket.level(now), 10);
  now += 1s;
  EXPECT_DOUBLE_EQ(bucket.level(now), 20);
  bucket.set_rate(5, now);
  EXPECT_EQ(bucket.level(now), 5);
}

TEST(token_bucket, a_clock_that_stands_still_or_steps_back_gives_nothing) {
  token_bucket::time_point now{1h};
  token_bucket bucket{60, now};
  bucket.charge(60, now);
  EXPECT_EQ(bucket.level(now - 30min), 0);
}

TEST(reset_text, is_written_as_openai_does) {
  EXPECT_EQ(reset_text(seconds{0}), "0ms");
  EXPECT_EQ(reset_text(seconds{0.25}), "250ms");
  EXPECT_EQ(reset_text(seconds{1}), "1s");
  EXPECT_EQ(reset_text(seconds{59.5}), "1m0s");
  EXPECT_EQ(reset_text(seconds{360}), "6m0s");
}

} // namespace
} // namespace troupe::http
