// The transport between two actor systems in one process: its guarantees to actors.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include "actors/transport/fabric/socket.hpp"
#include "tests/protocol/transport_fixture.hpp"
#include "tests/protocol/unreported_leaks.hpp"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

class transport_test : public testing::Test {
 protected:
  void serve() {
    server = spawn_server(there.system);
    there.net->publish("server", server);
  }

  void TearDown() override {
    if (server)
      caf::anon_send_exit(server, caf::exit_reason::user_shutdown);
  }

  // An echo through `to`; the error if there is one.
  caf::error echo(const server_actor& to, batch what, batch& answer,
                  std::chrono::milliseconds deadline = patience) {
    caf::scoped_actor self{here.system};
    caf::error result;
    self->request(to, deadline, std::move(what))
        .receive([&](batch& x) { answer = std::move(x); }, [&](caf::error& err) { result = std::move(err); });
    return result;
  }

  node here;
  node there;
  server_actor server;
};

TEST_F(transport_test, answers_a_request_without_payload) {
  serve();
  const auto remote = here.server_at(there.net->endpoint());
  batch answer;
  ASSERT_FALSE(echo(remote, {41, "note", {}}, answer));
  EXPECT_EQ(answer.id, 42U);
  EXPECT_EQ(answer.note, "note");
  EXPECT_TRUE(answer.parts.empty());
}

TEST_F(transport_test, carries_payloads_of_every_size_in_order) {
  serve();
  const auto remote = here.server_at(there.net->endpoint());
  batch question{7, std::string(10'000, 'n'), {}};
  for (const std::size_t size : {0UL, 1UL, 63UL, 64UL, 65UL, 8192UL, 131'072UL, 300'001UL, 1'048'576UL})
    question.parts.push_back(patterned(size, size));
  batch answer;
  ASSERT_FALSE(echo(remote, question, answer));
  EXPECT_EQ(answer.id, 8U);
  EXPECT_EQ(answer.note, question.note);
  ASSERT_EQ(answer.parts.size(), question.parts.size());
  for (std::size_t i = 0; i < answer.parts.size(); ++i) {
    EXPECT_EQ(answer.parts[i], question.parts[i]) << i;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(answer.parts[i].data()) % 64, 0U) << i;
  }
}

TEST_F(transport_test, keeps_order_over_sizes_that_travel_differently) {
  serve();
  const auto remote = here.server_at(there.net->endpoint());
  const std::size_t sizes[] = {0, 100, 9'000, 300'000, 64, 2'000'000};
  caf::scoped_actor self{here.system};
  constexpr std::uint64_t count = 300;
  for (std::uint64_t i = 1; i <= count; ++i) {
    // Sometimes more metadata than fits beside the header.
    batch x{i, std::string(i % 7 == 0 ? 20'000 : 5, 'x'), {patterned(sizes[i % 6], i)}};
    if (i % 5 == 0)
      x.parts.push_back(patterned(77, i));
    self->send(remote, caf::put_atom_v, std::move(x));
  }
  self->request(remote, patience, caf::get_atom_v)
      .receive(
          [&](std::uint64_t taken, std::uint64_t disordered) {
            EXPECT_EQ(taken, count);
            EXPECT_EQ(disordered, 0U);
          },
          [&](caf::error& err) { ADD_FAILURE() << here.system.render(err); });
}

TEST_F(transport_test, tells_monitors_that_a_remote_actor_has_ended) {
  serve();
  const auto remote = here.server_at(there.net->endpoint());
  caf::scoped_actor self{here.system};
  self->monitor(remote);
  self->send(remote, caf::close_atom_v);
  bool down = false;
  self->receive([&](const caf::down_msg& x) { down = x.reason == caf::exit_reason::user_shutdown; },
                caf::after(patience) >> [] {});
  EXPECT_TRUE(down);
  batch answer;
  EXPECT_EQ(echo(remote, {}, answer), caf::sec::request_receiver_down);
}

TEST_F(transport_test, resolves_its_own_endpoint_locally) {
  const auto local = spawn_server(here.system);
  here.net->publish("mine", local);
  const auto found = here.resolve(here.net->endpoint(), "mine");
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)->get(), caf::actor_cast<caf::strong_actor_ptr>(local)->get());
  caf::anon_send_exit(local, caf::exit_reason::user_shutdown);
}

TEST_F(transport_test, knows_itself_under_another_name) {
  const auto local = spawn_server(here.system);
  here.net->publish("mine", local);
  const auto found = here.resolve("localhost:" + std::to_string(here.net->port()), "mine");
  ASSERT_TRUE(found) << here.system.render(found.error());
  EXPECT_EQ((*found)->node(), here.system.node());
  caf::anon_send_exit(local, caf::exit_reason::user_shutdown);
}

TEST_F(transport_test, says_what_cannot_be_resolved) {
  const auto nobody = here.resolve(there.net->endpoint(), "nobody");
  ASSERT_FALSE(nobody);
  EXPECT_TRUE(is_transport_error(nobody.error(), transport_error::no_such_service));
  EXPECT_NE(here.system.render(nobody.error()).find("nobody"), std::string::npos);
  // Port 1 on loopback: nothing listens there.
  const auto nowhere = here.resolve("127.0.0.1:1", "server");
  ASSERT_FALSE(nowhere);
  EXPECT_TRUE(is_transport_error(nowhere.error(), transport_error::cannot_connect));
  const auto nonsense = here.resolve("no port", "server");
  ASSERT_FALSE(nonsense);
  EXPECT_TRUE(is_transport_error(nonsense.error(), transport_error::cannot_connect));
}

TEST_F(transport_test, handles_in_messages_work_both_ways) {
  serve();
  const auto remote = here.server_at(there.net->endpoint());
  caf::scoped_actor self{here.system};
  self->send(remote, caf::forward_atom_v, caf::actor_cast<caf::actor>(self), std::int32_t{41});
  std::int32_t got = 0;
  self->receive([&](std::int32_t x) { got = x; }, caf::after(patience) >> [] {});
  EXPECT_EQ(got, 42);
}

TEST(transport_process_test, kill_9_ends_requests_and_monitors_without_waiting_for_silence) {
  // This test has no limit of silence: the connection itself reports its end.
  node here;
  child peer;
  const auto remote = here.server_at(peer.endpoint());
  caf::scoped_actor self{here.system};
  self->monitor(remote);
  for (int i = 0; i < 5; ++i)
    self->send(remote, caf::put_atom_v, batch{});
  auto handle =
      self->request(remote, caf::infinite, caf::pending_atom_v, batch{1, "", {patterned(1 << 20, 1)}});
  peer.kill();
  caf::error reason;
  handle.receive([](batch&) {}, [&](caf::error& err) { reason = std::move(err); });
  EXPECT_EQ(reason, caf::exit_reason::remote_link_unreachable);
  bool down = false;
  self->receive([&](const caf::down_msg& x) { down = x.reason == caf::exit_reason::remote_link_unreachable; },
                caf::after(patience) >> [] {});
  EXPECT_TRUE(down);
  self->request(remote, patience, batch{})
      .receive([](batch&) { ADD_FAILURE(); },
               [&](caf::error& err) { EXPECT_EQ(err, caf::sec::request_receiver_down); });
}

// Links itself to `remote`, then waits for the command to end.
caf::behavior linked_to(caf::event_based_actor* me, const server_actor& remote) {
  me->link_to(remote);
  return {[me](caf::close_atom) { me->quit(caf::exit_reason::user_shutdown); }};
}

// Waits for the end of a monitored actor, which must have this reason.
void expect_end(const node& where, caf::scoped_actor& self, caf::exit_reason reason) {
  caf::error got;
  self->receive([&](caf::down_msg& x) { got = std::move(x.reason); }, caf::after(patience) >> [] {});
  EXPECT_EQ(where.system.render(got), where.system.render(make_error(reason)))
      << testing::PrintToString(where.lines());
}

TEST_F(transport_test, a_link_ends_the_local_actor_when_the_remote_one_ends) {
  serve();
  const auto remote = here.server_at(there.net->endpoint());
  caf::scoped_actor self{here.system};
  self->spawn<caf::monitored>(linked_to, remote);
  self->send(remote, caf::close_atom_v);
  expect_end(here, self, caf::exit_reason::user_shutdown);
}

TEST_F(transport_test, a_link_ends_the_remote_actor_when_the_local_one_ends) {
  serve();
  const auto remote = here.server_at(there.net->endpoint());
  caf::scoped_actor self{here.system};
  self->monitor(remote);
  const auto local = self->spawn(linked_to, remote);
  self->send(local, caf::close_atom_v);
  expect_end(here, self, caf::exit_reason::user_shutdown);
}

TEST(transport_process_test, links_reach_across_processes) {
  node here;
  child peer;
  caf::scoped_actor self{here.system};
  {
    const auto remote = here.server_at(peer.endpoint());
    const auto local = self->spawn<caf::monitored>(linked_to, remote);
    // Its answer comes after the link was established: frames keep their order.
    self->request(remote, patience, batch{}).receive([](batch&) {}, [](caf::error&) { ADD_FAILURE(); });
    peer.kill();
    expect_end(here, self, caf::exit_reason::remote_link_unreachable);
  }
  child second;
  const auto remote = here.server_at(second.endpoint());
  self->monitor(remote);
  const auto local = self->spawn(linked_to, remote);
  self->send(local, caf::close_atom_v);
  expect_end(here, self, caf::exit_reason::user_shutdown);
}

TEST(transport_process_test, a_link_to_an_actor_of_a_dead_process_ends_the_local_one) {
  node here;
  child peer;
  const auto remote = here.server_at(peer.endpoint());
  peer.kill();
  ASSERT_TRUE(here.await_line("peer-down"));
  caf::scoped_actor self{here.system};
  self->spawn<caf::monitored>(linked_to, remote);
  expect_end(here, self, caf::exit_reason::remote_link_unreachable);
}

TEST(transport_process_test, two_that_dial_each_other_at_once_share_one_connection) {
  for (int round = 0; round < 10; ++round) {
    node one;
    node two;
    const auto serve = [](node& x) {
      const auto server = spawn_server(x.system);
      x.net->publish("server", server);
      return server;
    };
    const auto servers = {serve(one), serve(two)};
    const auto meet = [](node& from, const node& to) {
      caf::scoped_actor self{from.system};
      self->request(from.server_at(to.net->endpoint()), patience, batch{1, "", {patterned(100'000, 1)}})
          .receive([](batch& x) { EXPECT_EQ(x.id, 2U); },
                   [&](caf::error& err) { ADD_FAILURE() << from.system.render(err); });
    };
    std::thread other{[&] { meet(two, one); }};
    meet(one, two);
    other.join();
    EXPECT_EQ(one.net->stats().peers_lost + two.net->stats().peers_lost, 0U);
    for (const auto& server : servers)
      caf::anon_send_exit(server, caf::exit_reason::user_shutdown);
  }
}

TEST_F(transport_test, publishing_again_replaces_and_unpublishing_withdraws) {
  serve();
  const auto first = here.resolve(there.net->endpoint(), "server");
  ASSERT_TRUE(first);
  EXPECT_EQ((*first)->id(), server.id());
  const auto next = spawn_server(there.system);
  there.net->publish("server", next);
  const auto second = here.resolve(there.net->endpoint(), "server");
  ASSERT_TRUE(second);
  EXPECT_EQ((*second)->id(), next.id());
  there.net->unpublish("server");
  EXPECT_TRUE(is_transport_error(here.resolve(there.net->endpoint(), "server").error(),
                                 transport_error::no_such_service));
  caf::anon_send_exit(next, caf::exit_reason::user_shutdown);
}

TEST_F(transport_test, a_resolve_gives_up_at_its_own_deadline) {
  // Listens and says nothing.
  const auto mute = wire::listen_on({"127.0.0.1", 0});
  caf::scoped_actor self{here.system};
  self->request(here.net->actor(), patience, caf::resolve_atom_v,
                "127.0.0.1:" + std::to_string(wire::bound_port(mute)), std::string{"server"},
                caf::timespan{100ms})
      .receive(
          [](caf::strong_actor_ptr&) { ADD_FAILURE(); },
          [](caf::error& err) { EXPECT_TRUE(is_transport_error(err, transport_error::cannot_connect)); });
}

TEST(transport_process_test, requests_that_nobody_answers_are_forgotten_at_last) {
  auto options = loopback_options();
  options.max_request_age = 100ms;
  node here{options};
  child peer;
  const auto remote = here.server_at(peer.endpoint());
  caf::scoped_actor self{here.system};
  self->request(remote, 10ms, caf::pending_atom_v, batch{})
      .receive([](batch&) { ADD_FAILURE(); },
               [](caf::error& err) { EXPECT_EQ(err, caf::sec::request_timeout); });
  EXPECT_TRUE(eventually([&] { return here.net->stats().requests_pending == 0; }));
  // Callers without a deadline of their own get the error, too.
  const auto heard = std::make_shared<std::promise<caf::error>>();
  here.system.spawn([remote, heard](caf::event_based_actor* me) {
    me->request(remote, caf::infinite, caf::pending_atom_v, batch{})
        .then([](batch&) { ADD_FAILURE(); }, [heard](caf::error& err) { heard->set_value(std::move(err)); });
  });
  auto answer = heard->get_future();
  ASSERT_EQ(answer.wait_for(patience), std::future_status::ready);
  EXPECT_EQ(answer.get(), caf::sec::request_timeout);
  EXPECT_EQ(here.net->stats().requests_pending, 0U);
}

TEST_F(transport_test, a_request_may_be_delegated_to_a_third_process) {
  serve();
  node middle;
  // The third process must know the first to answer it.
  const auto known = there.resolve(here.net->endpoint(), "nothing");
  EXPECT_TRUE(is_transport_error(known.error(), transport_error::no_such_service));
  const auto remote = middle.server_at(there.net->endpoint());
  const auto relay = middle.system.spawn([remote](caf::event_based_actor* me) -> caf::behavior {
    return {[me, remote](batch& x) { return me->delegate(remote, std::move(x)); }};
  });
  middle.net->publish("relay", relay);
  const auto found = here.resolve(middle.net->endpoint(), "relay");
  ASSERT_TRUE(found);
  caf::scoped_actor self{here.system};
  self->request(caf::actor_cast<caf::actor>(*found), patience, batch{1, "", {patterned(1000, 1)}})
      .receive([](batch& x) { EXPECT_EQ(x.id, 2U); },
               [&](caf::error& err) { ADD_FAILURE() << here.system.render(err); });
  caf::anon_send_exit(relay, caf::exit_reason::user_shutdown);
}

TEST(transport_trust_test, another_secret_is_refused_and_said_on_both_sides) {
  node here;
  auto options = loopback_options();
  options.secret = "something else";
  node there{options};
  const auto found = here.resolve(there.net->endpoint(), "server");
  ASSERT_FALSE(found);
  EXPECT_TRUE(is_transport_error(found.error(), transport_error::cannot_connect));
  EXPECT_NE(here.system.render(found.error()).find("secret"), std::string::npos);
  EXPECT_TRUE(there.await_line("guest-refused: authentication failed"));
}

TEST(transport_trust_test, another_model_is_refused_by_name) {
  auto options = loopback_options();
  options.fingerprint = "mixtral-1";
  node here{options};
  options.fingerprint = "olmoe-2";
  node there{options};
  const auto found = here.resolve(there.net->endpoint(), "server");
  ASSERT_FALSE(found);
  const auto text = here.system.render(found.error());
  EXPECT_NE(text.find("mixtral-1"), std::string::npos) << text;
  EXPECT_NE(text.find("olmoe-2"), std::string::npos) << text;
  // A process without a model may talk to both.
  node gateway;
  EXPECT_TRUE(is_transport_error(gateway.resolve(there.net->endpoint(), "x").error(),
                                 transport_error::no_such_service));
  EXPECT_TRUE(is_transport_error(gateway.resolve(here.net->endpoint(), "x").error(),
                                 transport_error::no_such_service));
}

// The constructor's error for these options.
std::string refusal_of(caf::actor_system& sys, const transport_options& options) {
  try {
    transport refused{sys, options};
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(transport_trust_test, unusable_options_are_refused_at_the_start) {
  system_config cfg;
  caf::actor_system sys{cfg};
  auto options = loopback_options();
  options.listen = "nonsense";
  EXPECT_EQ(refusal_of(sys, options), "transport: 'nonsense' is not an endpoint of the form HOST:PORT");
  options = loopback_options();
  options.secret = {};
  EXPECT_EQ(refusal_of(sys, options), "transport: the cluster secret is empty");
  const auto taken = wire::listen_on({"127.0.0.1", 0});
  options = loopback_options();
  options.listen = "127.0.0.1:" + std::to_string(wire::bound_port(taken));
  EXPECT_NE(refusal_of(sys, options).find("cannot listen on " + options.listen), std::string::npos);
}

TEST(transport_trust_test, what_ucx_cannot_start_with_is_named_once) {
  system_config cfg;
  caf::actor_system sys{cfg};
  auto options = loopback_options();
  options.net_devices = "lo,nosuchdevice7:1";
  EXPECT_EQ(refusal_of(sys, options), "transport: no network device 'nosuchdevice7' on this host");
  options = loopback_options();
  options.data_ports = "1-x";
  std::string why;
  {
    // When an interface cannot be opened, ucp_worker_add_resource_ifaces of UCX 1.13.1 (and of its main
    // branch in August 2026) closes those that it had opened before and forgets what ucp_worker_iface_open
    // allocated for each, a ucp_worker_iface_t of 600 bytes ('err_close_ifaces' in ucp_worker.c). No
    // suppression by name can tell these from those of a worker that we did not destroy.
    unreported_leaks of_ucx;
    why = refusal_of(sys, options);
  }
  EXPECT_TRUE(why.starts_with("transport: ucp_")) << why;
  EXPECT_NE(why.find("data ports '1-x'"), std::string::npos) << why;
  EXPECT_EQ(why.find('\n'), std::string::npos) << why;
  // Nothing of it remains.
  options.data_ports = "0";
  EXPECT_EQ(refusal_of(sys, options), "nothing");
}

TEST(transport_trust_test, a_system_without_a_node_id_is_refused) {
  caf::actor_system_config cfg;
  caf::actor_system sys{cfg};
  EXPECT_NE(refusal_of(sys, loopback_options()).find("call configure_transport first"), std::string::npos);
}

} // namespace
} // namespace troupe::test
