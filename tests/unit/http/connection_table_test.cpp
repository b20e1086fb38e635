// Which connections get a place, which lose one, and the clients named by proxies.
#include "services/gateway/http/connection_table.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "services/gateway/http/client_requests.hpp"
#include "services/gateway/http/forwarded_for.hpp"
#include "services/options/option_parser.hpp"

namespace troupe::http {

namespace {

using outcome = connection_table::outcome;

network_address at(const char* text) {
  return parse_network_address(text).value();
}

} // namespace

TEST(connection_table_test, the_one_that_has_been_idle_longest_loses_its_place) {
  connection_table table{3, 0};
  auto first = table.admit(at("192.0.2.1"));
  auto second = table.admit(at("192.0.2.2"));
  auto third = table.admit(at("192.0.2.3"));
  std::vector<int> lost;
  first.taken->on_loss([&] { lost.push_back(1); });
  second.taken->on_loss([&] { lost.push_back(2); });
  third.taken->on_loss([&] { lost.push_back(3); });
  EXPECT_TRUE(first.taken->begin_request());
  first.taken->end_request(); // idle only since now
  EXPECT_TRUE(third.taken->begin_request());
  auto fourth = table.admit(at("192.0.2.4"));
  EXPECT_TRUE(fourth.made_room);
  EXPECT_EQ(lost, std::vector<int>{2});
  EXPECT_FALSE(second.taken->begin_request());
  auto fifth = table.admit(at("192.0.2.5"));
  EXPECT_EQ(lost, (std::vector<int>{2, 1}));
  EXPECT_TRUE(fourth.taken->begin_request());
  EXPECT_TRUE(fifth.taken->begin_request());
  EXPECT_EQ(table.admit(at("192.0.2.6")).result, outcome::full);
  EXPECT_EQ(table.size(), 3U);
  second.taken.reset();
  first.taken.reset();
  EXPECT_EQ(table.size(), 3U);
  third.taken.reset();
  EXPECT_EQ(table.size(), 2U);
  const auto sixth = table.admit(at("192.0.2.6"));
  EXPECT_EQ(sixth.result, outcome::admitted);
  EXPECT_FALSE(sixth.made_room);
}

TEST(connection_table_test, who_asks_after_a_loss_is_told_at_once) {
  connection_table table{1, 0};
  auto first = table.admit(std::nullopt);
  auto second = table.admit(std::nullopt);
  bool told = false;
  first.taken->on_loss([&] { told = true; });
  EXPECT_TRUE(told);
  EXPECT_NE(second.taken, nullptr);
}

TEST(connection_table_test, a_peer_has_so_many_places_and_gets_lost_ones_back) {
  connection_table table{4, 2};
  auto first = table.admit(at("2001:db8::1"));
  auto second = table.admit(at("2001:db8::ffff")); // of the same network of 64 bits
  EXPECT_TRUE(first.taken->begin_request());
  EXPECT_TRUE(second.taken->begin_request());
  EXPECT_EQ(table.admit(at("2001:db8::2")).result, outcome::peer_full);
  auto other = table.admit(at("2001:db8:0:1::1"));
  EXPECT_EQ(other.result, outcome::admitted);
  EXPECT_EQ(table.admit(std::nullopt).result, outcome::admitted); // and gone again
  first.taken.reset();
  EXPECT_EQ(table.admit(at("2001:db8::2")).result, outcome::admitted);
}

TEST(connection_table_test, a_full_peer_loses_its_own_longest_silent_connection) {
  connection_table table{8, 3};
  std::vector<int> lost;
  auto stranger = table.admit(at("192.0.2.9"));
  stranger.taken->on_loss([&] { lost.push_back(9); });
  std::vector<connection_table::admission> own;
  for (int i = 0; i < 3; ++i) {
    own.push_back(table.admit(at("192.0.2.1")));
    own.back().taken->on_loss([&lost, i] { lost.push_back(i); });
  }
  EXPECT_TRUE(own[0].taken->begin_request());
  own[0].taken->end_request(); // silent only since now
  EXPECT_TRUE(own[1].taken->begin_request());
  auto fourth = table.admit(at("192.0.2.1"));
  EXPECT_TRUE(fourth.made_room);
  EXPECT_EQ(lost, std::vector<int>{2});
  EXPECT_FALSE(own[2].taken->begin_request());
  auto fifth = table.admit(at("192.0.2.1"));
  EXPECT_EQ(lost, (std::vector<int>{2, 0})) << "not the stranger, who has been silent for longer";
  EXPECT_TRUE(fourth.taken->begin_request());
  EXPECT_TRUE(fifth.taken->begin_request());
  EXPECT_EQ(table.admit(at("192.0.2.1")).result, outcome::peer_full);
  own[2].taken.reset();
  own[0].taken.reset();
  own[1].taken.reset();
  EXPECT_EQ(table.admit(at("192.0.2.1")).result, outcome::admitted) << "and no place is counted twice";
  EXPECT_EQ(table.size(), 3U);
}

TEST(client_requests_test, are_limited_by_client_until_they_end) {
  client_requests requests{1};
  auto ticket = requests.begin(at("192.0.2.1"));
  EXPECT_NE(ticket, nullptr);
  EXPECT_EQ(requests.begin(at("192.0.2.1")), nullptr);
  EXPECT_NE(requests.begin(at("192.0.2.2")), nullptr);
  ticket.reset();
  EXPECT_NE(requests.begin(at("192.0.2.1")), nullptr);
}

TEST(forwarded_for_test, the_rightmost_address_that_is_no_proxy_is_the_client) {
  const address_ranges trusted({"10.0.0.0/8", "fd00::/8"}, "test");
  const auto peer = at("10.0.0.1");
  const auto client = [&](const char* header) { return forwarded_client(peer, header, trusted).text(); };
  EXPECT_EQ(client("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(client("198.51.100.9, 192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(client("192.0.2.1,10.0.0.7 ,fd00::2"), "192.0.2.1");
  EXPECT_EQ(client("192.0.2.1:4711"), "192.0.2.1");
  EXPECT_EQ(client("[2001:db8::1]:4711"), "2001:db8::1");
  EXPECT_EQ(client(""), "10.0.0.1");
  EXPECT_EQ(client("192.0.2.1, unknown"), "10.0.0.1");
  EXPECT_EQ(client("10.0.0.9, 10.0.0.8"), "10.0.0.9");
}

TEST(network_address_test, ranges_hold_what_their_prefix_says) {
  const address_ranges some({"10.0.0.0/15", "192.0.2.7", "2001:db8::/33", "::1"}, "test");
  for (const char* inside :
       {"10.0.0.0", "10.1.255.255", "192.0.2.7", "2001:db8:7fff::1", "[::1]", "::ffff:10.1.2.3"})
    EXPECT_TRUE(some.contains(at(inside))) << inside;
  for (const char* outside : {"10.2.0.0", "192.0.2.8", "2001:db8:8000::1", "::2", "127.0.0.1"})
    EXPECT_FALSE(some.contains(at(outside))) << outside;
  for (const char* bad : {"", "x", "10.0.0.0/33", "10.0.0.0/", "fd00::/129", "10.0.0.1/8x", "/8"})
    EXPECT_THROW(address_ranges({bad}, "--trusted-proxies"), option_error) << bad;
}

} // namespace troupe::http
