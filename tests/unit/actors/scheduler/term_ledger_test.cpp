// The scheduler's term and its lease.
#include <gtest/gtest.h>

#include "actors/scheduler/term_ledger.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/scheduler/start_time.hpp"

namespace troupe {
namespace {

worker_hello of_term(std::uint64_t term, std::uint64_t id = 11) {
  auto hello = expert_hello(id);
  hello.term = term;
  return hello;
}

TEST(term_ledger, a_worker_is_ahead_by_a_newer_term_or_by_this_one_of_another_scheduler) {
  term_ledger terms{3};
  EXPECT_FALSE(terms.is_ahead(of_term(2)));
  EXPECT_TRUE(terms.is_ahead(of_term(3))) << "no worker was welcomed in it";
  EXPECT_TRUE(terms.is_ahead(of_term(4)));
  terms.welcome({11});
  EXPECT_FALSE(terms.is_ahead(of_term(3)));
  EXPECT_STREQ(terms.raise(7, "expert-12", {{12}}).name, "term-raised");
  EXPECT_EQ(terms.term(), 8U);
  EXPECT_TRUE(terms.is_ahead(of_term(8)));
  EXPECT_FALSE(terms.is_ahead(of_term(8, 12)));
}

TEST(term_ledger, one_newer_term_is_taken_at_a_time) {
  term_ledger terms{1};
  EXPECT_TRUE(terms.begin_raise());
  EXPECT_FALSE(terms.begin_raise());
  terms.end_raise();
  EXPECT_TRUE(terms.begin_raise());
}

TEST(term_ledger, renews_in_its_interval_one_at_a_time) {
  term_ledger terms{1};
  EXPECT_TRUE(terms.begin_renewal(start_time));
  EXPECT_FALSE(terms.begin_renewal(start_time + defaults::scheduler_lease_interval)) << "one is under way";
  terms.renewed();
  EXPECT_FALSE(terms.begin_renewal(start_time + defaults::scheduler_lease_interval / 2));
  EXPECT_TRUE(terms.begin_renewal(start_time + defaults::scheduler_lease_interval));
}

TEST(term_ledger, tells_of_a_silent_disk_once_until_it_answers) {
  term_ledger terms{1};
  const auto late = start_time + defaults::scheduler_lease + std::chrono::milliseconds{1};
  EXPECT_FALSE(terms.check_renewal(late)) << "nothing was asked";
  terms.begin_renewal(start_time);
  EXPECT_FALSE(terms.check_renewal(start_time + defaults::scheduler_lease));
  EXPECT_TRUE(terms.check_renewal(late));
  EXPECT_FALSE(terms.check_renewal(late));
  EXPECT_FALSE(terms.failed(make_error(ec::engine_failed, "full"))) << "it is known";
  terms.renewed();
  EXPECT_TRUE(terms.failed(make_error(ec::engine_failed, "full")));
}

TEST(term_ledger, doubt_ends_with_a_renewal_or_after_a_while) {
  term_ledger terms{1};
  EXPECT_FALSE(terms.renewed());
  terms.doubt(start_time);
  EXPECT_TRUE(terms.is_doubtful(start_time));
  EXPECT_FALSE(terms.is_doubtful(start_time + defaults::reconnect_max));
  EXPECT_TRUE(terms.renewed());
  EXPECT_FALSE(terms.is_doubtful(start_time));
}

} // namespace
} // namespace troupe
