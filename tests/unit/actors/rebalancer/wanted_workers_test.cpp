#include "actors/rebalancer/wanted_workers.hpp"

#include <cstdint>
#include <limits>
#include <optional>

#include <gtest/gtest.h>

namespace troupe {
namespace {

using namespace std::chrono_literals;

class wanted_workers_test : public ::testing::Test {
 protected:
  wanted_workers_test() {
    seen.load = 0.5;
    seen.num_copies = 96;
    seen.worker_room = std::numeric_limits<std::uint64_t>::max();
    seen.num_workers = 2;
    seen.is_settled = true;
  }

  /// Looks every 5 s for this time.
  /// @returns the last number
  std::optional<std::uint32_t> look_for(std::chrono::seconds time) {
    for (const auto end = now + time; now < end;) {
      now += 5s;
      const auto before = wanted.current();
      const auto after = wanted.observe(seen, now);
      changes += before && after != before ? 1 : 0;
    }
    return wanted.current();
  }

  wanted_workers wanted;
  wanted_workers::look seen;
  wanted_workers::time_point now;
  std::size_t changes = 0; ///< of a known number
};

TEST_F(wanted_workers_test, nothing_is_said_before_five_minutes_are_known) {
  EXPECT_EQ(look_for(300s), std::nullopt) << "the first look began them";
  EXPECT_EQ(look_for(5s), 1U);
}

TEST_F(wanted_workers_test, load_asks_for_workers_that_compute_six_tenths_of_their_time) {
  seen.load = 3.1;
  EXPECT_EQ(look_for(600s), 6U);
  seen.load = 3.7;
  EXPECT_EQ(look_for(60s), 7U) << "the mean of a minute is above 3.6";
  EXPECT_EQ(changes, 1U);
}

TEST_F(wanted_workers_test, all_copies_need_room_and_hosts_of_their_own) {
  seen.worker_room = 40;
  EXPECT_EQ(look_for(600s), 3U);
  seen.num_copies = 192;
  seen.num_replicas = 2;
  EXPECT_EQ(look_for(60s), 5U);
  wanted = wanted_workers{};
  seen.worker_room = 1000;
  EXPECT_EQ(look_for(600s), 2U) << "two hosts for each expert";
  wanted = wanted_workers{};
  seen.worker_room = 0;
  EXPECT_EQ(look_for(600s), 2U) << "nobody says how much fits";
}

TEST_F(wanted_workers_test, the_number_of_workers_is_no_part_of_it) {
  seen.load = 1.5;
  seen.worker_room = 40;
  for (std::uint32_t there : {3U, 4U, 5U, 9U, 1U, 3U}) {
    seen.num_workers = there;
    EXPECT_EQ(look_for(900s), 3U) << there;
  }
  EXPECT_EQ(changes, 0U);
}

TEST_F(wanted_workers_test, a_lower_number_needs_five_minutes_and_a_margin) {
  seen.load = 2.9;
  EXPECT_EQ(look_for(600s), 5U);
  seen.load = 2.3;
  EXPECT_EQ(look_for(3600s), 5U)
      << "four would compute 57 % of their time, three quarters of 60 % is the bound";
  seen.load = 1.9;
  EXPECT_EQ(look_for(300s), 5U);
  EXPECT_EQ(look_for(120s), 4U);
  EXPECT_EQ(changes, 1U);
}

TEST_F(wanted_workers_test, load_about_an_edge_does_not_flap) {
  look_for(600s);
  for (int turn = 0; turn < 100; ++turn) {
    seen.load = turn % 2 == 0 ? 1.1 : 1.3;
    look_for(120s);
  }
  EXPECT_EQ(wanted.current(), 3U);
  EXPECT_EQ(changes, 2U) << "from 1 to 2 and 3, and no more";
}

TEST_F(wanted_workers_test, a_short_burst_asks_for_nobody) {
  seen.load = 0.2;
  look_for(600s);
  seen.load = 2;
  EXPECT_EQ(look_for(10s), 1U);
  seen.load = 0.2;
  EXPECT_EQ(look_for(600s), 1U);
}

TEST_F(wanted_workers_test, what_is_not_served_is_not_asked_for_less) {
  seen.load = 2.9;
  EXPECT_EQ(look_for(600s), 5U);
  seen.load = 0;
  seen.is_settled = false; // hosts are lost
  seen.num_workers = 1;
  EXPECT_EQ(look_for(3600s), 5U);
  seen.is_settled = true;
  EXPECT_EQ(look_for(240s), 5U) << "five minutes of its own";
  EXPECT_EQ(look_for(120s), 1U);
}

TEST_F(wanted_workers_test, time_without_looks_counts_for_nothing) {
  seen.load = 2.9;
  EXPECT_EQ(look_for(600s), 5U);
  now += 1h; // all hosts are gone
  seen.load = std::nullopt;
  EXPECT_EQ(look_for(5s), 5U);
  seen.load = 3.5;
  EXPECT_EQ(look_for(30s), 5U) << "nor does a burst as they come";
  EXPECT_EQ(look_for(60s), 6U);
}

TEST_F(wanted_workers_test, while_weights_load_nobody_knows) {
  seen.is_settled = false;
  seen.load = 0;
  EXPECT_EQ(look_for(3600s), std::nullopt);
  seen.is_settled = true;
  seen.load = 1.5;
  EXPECT_EQ(look_for(240s), std::nullopt);
  EXPECT_EQ(look_for(120s), 3U);
}

TEST_F(wanted_workers_test, too_few_workers_to_hold_a_copy_of_all_is_no_loading) {
  seen.is_settled = false;
  seen.load = 0;
  seen.worker_room = 30;
  EXPECT_EQ(look_for(400s), 4U);
}

} // namespace
} // namespace troupe
