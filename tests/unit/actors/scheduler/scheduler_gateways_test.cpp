// Places of a gateway's requests while its connection is lost, and afterwards.
#include <caf/exit_reason.hpp>

#include "actors/scheduler/scheduler.hpp"
#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class scheduler_gateways_test : public scheduler_fixture {
 protected:
  static admission_request request_at_gateway(std::uint64_t id) {
    auto request = request_of(id);
    request.gateway = {70};
    return request;
  }

  /// A place of a request like `request_of`.
  static held_place place(std::uint64_t id, std::uint64_t worker = 1) { return {{id}, {worker}, 1, 20}; }

  /// Actor and member of the gateway, as the scheduler sees them when the connection ends.
  void cut(peer& member, const caf::actor& gateway) {
    member.renews = false;
    caf::anon_send_exit(gateway, caf::exit_reason::remote_link_unreachable);
    caf::anon_send_exit(member.member, caf::exit_reason::remote_link_unreachable);
    run();
  }
};

TEST_F(scheduler_gateways_test, places_outlive_a_lost_way_to_the_gateway) {
  start_ready();
  auto& member = join(gateway_hello(70));
  auto gateway = add_gateway();
  for (std::uint64_t id = 1; id <= 4; ++id)
    EXPECT_EQ(admit(request_at_gateway(id), gateway).worker(), 1U);
  auto& held_up = admit(request_at_gateway(5), gateway);
  cut(member, gateway);
  EXPECT_EQ(status().assigned, 4U) << "they may well be running";
  EXPECT_EQ(status().queued, 0U) << "and whoever waits is asked for again";
  EXPECT_FALSE(held_up.is_here);
  auto& other = admit(request_of(9));
  pass(1s);
  EXPECT_FALSE(other.is_here) << "all seats are taken";
  // It is back. Request 2 has ended meanwhile, and 3 has a place that the gateway does not know.
  join(gateway_hello(70, {place(1), place(4)}));
  EXPECT_EQ(status().assigned, 3U) << "1, 4, and the other gateway's";
  EXPECT_EQ(other.worker(), 1U);
  pass(defaults::lease + 1s);
  EXPECT_EQ(status().assigned, 3U) << "who is back has no deadline";
  EXPECT_EQ(admit(request_of(10)).worker(), 1U);
  EXPECT_FALSE(admit(request_of(11)).is_here) << "four seats";
  done(1);
  EXPECT_EQ(status().assigned, 4U);
}

TEST_F(scheduler_gateways_test, who_does_not_come_back_within_a_lease_is_dead) {
  start_ready();
  auto& member = join(gateway_hello(70));
  auto gateway = add_gateway();
  for (std::uint64_t id = 1; id <= 4; ++id)
    admit(request_at_gateway(id), gateway);
  cut(member, gateway);
  auto& other = admit(request_of(9));
  pass(defaults::lease - 200ms);
  EXPECT_EQ(status().assigned, 4U);
  EXPECT_FALSE(other.is_here);
  pass(400ms);
  EXPECT_EQ(status().assigned, 1U);
  EXPECT_EQ(other.worker(), 1U);
}

TEST_F(scheduler_gateways_test, a_gateway_declared_dead_has_no_places) {
  start_ready();
  auto& member = join(gateway_hello(70));
  auto gateway = add_gateway();
  for (std::uint64_t id = 1; id <= 4; ++id)
    admit(request_at_gateway(id), gateway);
  member.renews = false;
  pass(defaults::lease + 200ms);
  EXPECT_EQ(member.log->fences, 1U);
  EXPECT_EQ(status().assigned, 0U);
  // It was only slow.
  member.hello = gateway_hello(70, {place(1), place(2)});
  member.renews = true;
  join_again(member);
  EXPECT_EQ(status().assigned, 2U);
  die(member);
  EXPECT_EQ(status().assigned, 0U) << "its places are known by its name, too";
}

TEST_F(scheduler_gateways_test, what_a_gateway_declared_dead_still_asks_is_not_called_unwanted) {
  start_ready();
  auto& member = join(gateway_hello(70));
  auto gateway = add_gateway();
  for (std::uint64_t id = 1; id <= 4; ++id)
    admit(request_at_gateway(id), gateway);
  auto& waiting = admit(request_at_gateway(5), gateway);
  member.renews = false; // it is stalled, and its clients wait
  pass(defaults::lease + 200ms);
  EXPECT_EQ(waiting.code(), ec::peer_down);
  EXPECT_EQ(status().queued, 0U);
}

TEST_F(scheduler_gateways_test, a_restarted_scheduler_learns_from_gateways_what_places_hold) {
  start();
  join(gateway_hello(70, {{{70}, {1}, 1, 900}, {{72}, {8}, 1, 20}})); // before the attention worker
  EXPECT_EQ(status().assigned, 0U);
  auto attention = attention_hello(1);
  terms_of<attention_terms>(attention).running = {{{70}, 0}, {{71}, 0}};
  join(attention);
  join(expert_hello(11));
  EXPECT_EQ(status().assigned, 2U) << "71 by the worker's word; the worker of 72 is not here";
  // 1,000 tokens of KV: 900 for request 70, not the 250 of a seat's even share, and 250 for the unknown one.
  EXPECT_FALSE(admit(request_of(1)).is_here);
  done(70);
  EXPECT_EQ(status().assigned, 2U);
}

TEST_F(scheduler_gateways_test, what_ended_before_its_worker_is_back_does_not_come_back) {
  start();
  join(gateway_hello(70, {place(70)}));
  done(70);
  auto attention = attention_hello(1);
  terms_of<attention_terms>(attention).running = {{{70}, 0}};
  join(attention);
  EXPECT_EQ(status().assigned, 0U);
}

} // namespace
} // namespace troupe
