// The transport when peers die, stop, return, lie or are too slow. Peers are separate processes.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/transport/fabric/faults.hpp"
#include "tests/protocol/transport_fixture.hpp"
#include "tests/protocol/transport_pump.hpp"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

// Notices silence soon, so that tests are short, yet late enough for a loaded machine.
transport_options quick_to_notice() {
  auto result = loopback_options();
  result.heartbeat = 50ms;
  result.silence = 3s;
  return result;
}

caf::error echo(node& here, const server_actor& to, batch what, batch& answer,
                std::chrono::milliseconds deadline = patience) {
  caf::scoped_actor self{here.system};
  caf::error result;
  self->request(to, deadline, std::move(what))
      .receive([&](batch& x) { answer = std::move(x); }, [&](caf::error& err) { result = std::move(err); });
  return result;
}

bool await_down(caf::scoped_actor& self) {
  bool down = false;
  self->receive([&](const caf::down_msg&) { down = true; }, caf::after(patience) >> [] {});
  return down;
}

void kill_under_load(const transport_options& options, const std::vector<std::string>& args,
                     unsigned rounds) {
  node here{options};
  child survivor{args};
  const auto steady = here.server_at(survivor.endpoint());
  std::mt19937 random{7};
  tally killed;
  for (unsigned round = 0; round < rounds; ++round) {
    child victim{args};
    tally spared;
    caf::scoped_actor self{here.system};
    const auto doomed = self->spawn(pump, here.server_at(victim.endpoint()), &killed, round);
    const auto other = self->spawn(pump, steady, &spared, round + 100);
    EXPECT_TRUE(eventually(
        [&, before = killed.answered.load()] { return killed.answered > before + random() % 20; }));
    victim.kill();
    self->wait_for(doomed);
    const auto before = spared.answered.load();
    EXPECT_TRUE(eventually([&] { return spared.answered > before; }));
    spared.stop = true;
    self->wait_for(other);
    EXPECT_EQ(spared.sent, spared.answered);
    EXPECT_EQ(spared.wrong, 0U);
    // An unnoticed death would cost a request's whole deadline each round.
    ASSERT_EQ(killed.other_errors, 0U);
  }
  EXPECT_EQ(killed.sent, killed.answered + killed.failed);
  EXPECT_GE(killed.failed, rounds);
  EXPECT_EQ(killed.wrong, 0U);
  EXPECT_EQ(here.net->stats().requests_pending, 0U);
}

TEST(transport_failure_test, every_request_to_a_killed_process_is_answered_and_others_go_on) {
  kill_under_load(loopback_options(), {}, 5);
}

TEST(transport_failure_test, over_shared_memory_a_killed_process_holds_up_nobody_either) {
  auto options = loopback_options();
  options.shared_memory = true;
  kill_under_load(options, {"--shm"}, 5);
}

TEST(transport_failure_test, a_stopped_process_is_dead_and_is_fenced_when_it_comes_back) {
  node here{quick_to_notice()};
  child peer;
  const auto remote = here.server_at(peer.endpoint());
  caf::scoped_actor self{here.system};
  self->monitor(remote);
  peer.stop();
  auto pending = self->request(remote, caf::infinite, batch{1, "", {patterned(4'000'000, 1)}});
  caf::error reason;
  pending.receive([](batch&) {}, [&](caf::error& err) { reason = std::move(err); });
  EXPECT_EQ(reason, caf::exit_reason::remote_link_unreachable);
  EXPECT_TRUE(await_down(self));
  EXPECT_TRUE(here.logged("silent for 3000 ms"));
  peer.resume();
  // The old handle stays dead; a new one works, over a new connection.
  batch answer;
  EXPECT_EQ(echo(here, remote, {}, answer), caf::sec::request_receiver_down);
  const auto again = here.server_at(peer.endpoint());
  ASSERT_FALSE(echo(here, again, {5, "", {patterned(3'000'000, 9)}}, answer));
  EXPECT_EQ(answer.id, 6U);
  EXPECT_EQ(answer.parts.front(), patterned(3'000'000, 9));
}

// When the peer is declared dead, more than the sockets hold waits for it. When it returns, it reads some of
// that and closes its end: UCX then has both to read and to write.
TEST(transport_failure_test, a_peer_that_comes_back_to_a_full_pipe_harms_nobody) {
  node here{quick_to_notice()};
  std::vector<std::unique_ptr<child>> peers;
  caf::scoped_actor self{here.system};
  for (int i = 0; i < 8; ++i) {
    const auto& peer = *peers.emplace_back(std::make_unique<child>());
    const auto remote = here.server_at(peer.endpoint());
    self->monitor(remote);
    peer.stop();
    for (int n = 0; n < 160; ++n)
      self->send(remote, caf::put_atom_v, batch{1, "", {payload::allocate(120'000)}});
  }
  for (std::size_t i = 0; i < peers.size(); ++i)
    EXPECT_TRUE(await_down(self));
  for (const auto& peer : peers)
    peer->resume();
  for (const auto& peer : peers) {
    batch answer;
    ASSERT_FALSE(echo(here, here.server_at(peer->endpoint()), {5, "", {patterned(100'000, 9)}}, answer));
    EXPECT_EQ(answer.parts.front(), patterned(100'000, 9));
  }
}

TEST(transport_failure_test, buffers_of_a_stopped_peer_come_back_only_when_nobody_writes_to_them) {
  auto& pool = buffer_pool::instance();
  node here{quick_to_notice()};
  child peer;
  const auto before = pool.stats().live_bytes;
  tally counts;
  caf::scoped_actor self{here.system};
  const auto load = self->spawn(pump, here.server_at(peer.endpoint()), &counts, 3U);
  EXPECT_TRUE(eventually([&] { return counts.answered > 20; }));
  // Rendezvous are under way in both directions.
  peer.stop();
  self->wait_for(load);
  EXPECT_EQ(counts.sent, counts.answered + counts.failed);
  EXPECT_TRUE(eventually([&] { return pool.stats().live_bytes == before; }));
  std::vector<payload> fresh;
  for (const std::size_t size : {131'072UL, 1'048'576UL, 1'048'576UL, 3'000'000UL, 3'000'000UL, 3'000'000UL})
    fresh.push_back(patterned(size, size));
  peer.resume();
  const auto again = here.server_at(peer.endpoint());
  batch answer;
  ASSERT_FALSE(echo(here, again, {}, answer));
  for (const auto& x : fresh)
    EXPECT_EQ(x, patterned(x.size(), x.size()));
}

TEST(transport_failure_test, a_full_window_refuses_requests_and_recovers) {
  auto options = loopback_options();
  options.window_bytes = 1 << 20;
  node here{options};
  child peer;
  const auto remote = here.server_at(peer.endpoint());
  const batch question{1, "", {patterned(600'000, 1)}};
  caf::scoped_actor self{here.system};
  peer.stop();
  auto first = self->request(remote, caf::infinite, question);
  batch answer;
  EXPECT_TRUE(is_transport_error(echo(here, remote, question, answer), transport_error::window_full));
  EXPECT_EQ(here.net->stats().frames_refused, 1U);
  EXPECT_GE(here.net->stats().bytes_under_way, 600'000U);
  peer.resume();
  first.receive([](batch& x) { EXPECT_EQ(x.id, 2U); },
                [&](caf::error& err) { ADD_FAILURE() << here.system.render(err); });
  // The peer has received the first one; its acknowledgement comes with the answer or a heartbeat.
  caf::error err;
  EXPECT_TRUE(eventually([&] {
    err = echo(here, remote, question, answer);
    return !is_transport_error(err, transport_error::window_full);
  }));
  EXPECT_FALSE(err) << here.system.render(err);
  EXPECT_EQ(answer.parts.front(), question.parts.front());
  EXPECT_TRUE(eventually([&] { return here.net->stats().bytes_under_way == 0; }));
}

TEST(transport_failure_test, notifications_beyond_the_second_window_end_the_connection) {
  auto options = loopback_options();
  options.window_bytes = 1 << 20;
  node here{options};
  child peer;
  const auto remote = here.server_at(peer.endpoint());
  caf::scoped_actor self{here.system};
  self->monitor(remote);
  peer.stop();
  for (int i = 0; i < 30; ++i)
    self->send(remote, caf::put_atom_v, batch{1, "", {patterned(100'000, 1)}});
  EXPECT_TRUE(await_down(self));
  EXPECT_TRUE(here.logged("does not keep up"));
}

TEST(transport_failure_test, a_message_too_large_is_refused_and_harms_nobody) {
  auto options = loopback_options();
  options.max_message_bytes = 1 << 20;
  node here{options};
  child peer;
  const auto remote = here.server_at(peer.endpoint());
  batch answer;
  const auto err = echo(here, remote, {1, "", {patterned(1 << 20, 1)}}, answer);
  EXPECT_TRUE(is_transport_error(err, transport_error::message_too_large));
  ASSERT_FALSE(echo(here, remote, {1, "", {patterned(1'000'000, 1)}}, answer));
}

TEST(transport_failure_test, a_process_started_again_at_the_same_place_is_found) {
  node here;
  const auto endpoint = "127.0.0.1:" + std::to_string(unused_ports(1));
  {
    child first{{"--listen", endpoint}};
    batch answer;
    ASSERT_FALSE(echo(here, here.server_at(endpoint), {}, answer));
  }
  EXPECT_TRUE(here.await_line("peer-down"));
  child second{{"--listen", endpoint}};
  batch answer;
  ASSERT_FALSE(echo(here, here.server_at(endpoint), {1, "", {patterned(500'000, 2)}}, answer));
  EXPECT_EQ(answer.id, 2U);
}

TEST(transport_failure_test, a_transport_that_leaves_is_noticed_at_once) {
  node here;
  auto there = std::make_unique<node>();
  const auto server = spawn_server(there->system);
  there->net->publish("server", server);
  const auto remote = here.server_at(there->net->endpoint());
  caf::scoped_actor self{here.system};
  self->monitor(remote);
  caf::anon_send(server, caf::put_atom_v, batch{});
  there->net.reset();
  EXPECT_TRUE(await_down(self));
  caf::anon_send_exit(server, caf::exit_reason::user_shutdown);
}

TEST(transport_failure_test, data_ports_come_from_the_range) {
  node here;
  constexpr std::uint16_t count = 20;
  const auto low = unused_ports(count);
  const auto high = static_cast<std::uint16_t>(low + count - 1);
  child peer{{"--data-ports", std::to_string(low) + "-" + std::to_string(high)}};
  batch answer;
  ASSERT_FALSE(echo(here, here.server_at(peer.endpoint()), {1, "", {patterned(2'000'000, 2)}}, answer));
  const auto colon = peer.endpoint().rfind(':');
  unsigned in_range = 0;
  for (const auto port : peer.listening_ports()) {
    in_range += port >= low && port <= high ? 1 : 0;
    EXPECT_TRUE((port >= low && port <= high) || peer.endpoint().substr(colon + 1) == std::to_string(port))
        << port;
  }
  EXPECT_GE(in_range, 1U);
}

TEST(transport_failure_test, injected_faults_do_what_they_say) {
  struct script : fault_injector {
    fault decide(wire::frame_kind kind, std::size_t) override {
      return kind == wire::frame_kind::message ? fault{next.exchange(fault::action::pass), 50ms} : fault{};
    }

    std::atomic<fault::action> next{fault::action::pass};
  };

  auto options = loopback_options();
  const auto faults = std::make_shared<script>();
  options.faults = faults;
  node here{options};
  child peer;
  const auto remote = here.server_at(peer.endpoint());
  batch answer;
  faults->next = fault::action::drop;
  EXPECT_EQ(echo(here, remote, {}, answer, 200ms), caf::sec::request_timeout);
  faults->next = fault::action::delay;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(echo(here, remote, {}, answer));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 50ms);
  faults->next = fault::action::duplicate;
  caf::scoped_actor self{here.system};
  self->send(remote, caf::put_atom_v, batch{1, "", {}});
  self->request(remote, patience, caf::get_atom_v)
      .receive([](std::uint64_t taken, std::uint64_t) { EXPECT_EQ(taken, 2U); },
               [](caf::error&) { ADD_FAILURE(); });
  self->monitor(remote);
  faults->next = fault::action::kill;
  EXPECT_EQ(echo(here, remote, {}, answer), caf::exit_reason::remote_link_unreachable);
  EXPECT_TRUE(await_down(self));
}

TEST(transport_failure_test, seeded_faults_repeat) {
  const auto draw = [](std::uint64_t seed) {
    seeded_faults x{seed, {100, 100, 100, 10, 20ms}};
    std::vector<fault::action> result;
    for (int i = 0; i < 1000; ++i)
      result.push_back(x.decide(wire::frame_kind::message, 1).what);
    return result;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
  seeded_faults x{1, {1000, 0, 0, 0, 20ms}};
  EXPECT_EQ(x.decide(wire::frame_kind::message, 1).what, fault::action::drop);
  EXPECT_EQ(x.decide(wire::frame_kind::monitor, 1).what, fault::action::pass);
}

} // namespace
} // namespace troupe::test
