// All processes trace the same requests.
#include <string>

#include <gtest/gtest.h>

#include "actors/timeline/sampling.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe::timeline {
namespace {

request_context numbered(int number) {
  return {"request-" + std::to_string(number), ""};
}

TEST(sampling, takes_about_the_share_that_is_asked_for) {
  for (const double share : {0.01, 0.25}) {
    const auto limit = limit_of(share);
    int taken = 0;
    for (int i = 0; i < 20000; ++i)
      taken += is_sampled(identity_of(numbered(i)), limit) ? 1 : 0;
    EXPECT_NEAR(taken, 20000 * share, 20000 * share * 0.25);
  }
}

TEST(sampling, of_a_larger_share_has_all_of_a_smaller_one) {
  for (int i = 0; i < 2000; ++i)
    if (is_sampled(identity_of(numbered(i)), limit_of(0.1)))
      EXPECT_TRUE(is_sampled(identity_of(numbered(i)), limit_of(0.2))) << i;
}

TEST(sampling, takes_all_or_nothing_at_the_ends) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(is_sampled(identity_of(numbered(i)), limit_of(1)));
    EXPECT_FALSE(is_sampled(identity_of(numbered(i)), limit_of(0)));
  }
}

TEST(sampling, goes_by_the_trace_id_where_there_is_one) {
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const auto one = identity_of({"one", "00-" + trace + "-00f067aa0ba902b7-00"});
  const auto other = identity_of({"other", "00-" + trace + "-b7ad6b7169203331-00"});
  EXPECT_EQ(one.key(), other.key());
  EXPECT_EQ(one.trace_high, 0x4bf92f3577b34da6U);
  EXPECT_EQ(one.trace_low, 0xa3ce929d0e0e4736U);
  EXPECT_EQ(one.parent_span, 0x00f067aa0ba902b7U);
  EXPECT_EQ(one.key(), identity_of({trace, ""}).key()); // as an id that the gateway has drawn
}

TEST(sampling, takes_what_wants_to_be_traced_while_tracing_is_on) {
  const auto wanted = identity_of({"one", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"});
  EXPECT_TRUE(is_sampled(wanted, 1));
  EXPECT_FALSE(is_sampled(wanted, 0));
  EXPECT_FALSE(
      is_sampled(identity_of({"one", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02"}), 1));
}

TEST(sampling, has_no_key_for_requests_while_it_is_off) {
  EXPECT_FALSE(is_on());
  EXPECT_EQ(key_if_traced({"one", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}), 0U);
}

} // namespace
} // namespace troupe::timeline
