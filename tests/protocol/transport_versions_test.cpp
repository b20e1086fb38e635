// Processes of two versions of the program: which messages arrive, and what happens to the others.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include "tests/protocol/transport_fixture.hpp"

namespace troupe::test {

/// A message that only the newer version knows.
struct novelty {
  std::uint64_t id = 0;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, novelty& x) {
  return f(caf::meta::type_name("troupe::test::novelty"), x.id);
}

} // namespace troupe::test

CAF_BEGIN_TYPE_ID_BLOCK(transport_versions_test, caf::id_block::transport_test::end)

  CAF_ADD_TYPE_ID(transport_versions_test, (troupe::test::novelty))

CAF_END_TYPE_ID_BLOCK(transport_versions_test)

namespace troupe::test {
namespace {

using kinds = std::vector<wire::message_kind>;

constexpr auto batch_name = "troupe::test::batch";
constexpr auto novelty_name = "troupe::test::novelty";

struct newer_config : system_config {
  newer_config() { add_message_types<caf::id_block::transport_versions_test>(); }
};

transport_options options_with(kinds known) {
  auto result = loopback_options();
  result.kinds = std::move(known);
  return result;
}

/// A process of the newer version.
struct newer_process {
  explicit newer_process(kinds known) : net(system, options_with(std::move(known))) {}

  newer_config config;
  caf::actor_system system{config};
  transport net;
};

caf::actor resolved(caf::actor_system& system, const transport& net, const std::string& endpoint) {
  caf::scoped_actor self{system};
  caf::actor result;
  self->request(net.actor(), patience, caf::resolve_atom_v, endpoint, std::string{"server"})
      .receive([&](caf::strong_actor_ptr& found) { result = caf::actor_cast<caf::actor>(found); },
               [](caf::error& err) { ADD_FAILURE() << caf::to_string(err); });
  return result;
}

/// Sends `what` and returns the error of its answer; none if `Answer` comes back.
template <class Answer, class Question>
caf::error ask(caf::actor_system& system, const caf::actor& whom, Question what) {
  caf::scoped_actor self{system};
  caf::error result;
  self->request(whom, patience, std::move(what))
      .receive([](Answer&) {}, [&](caf::error& err) { result = std::move(err); });
  return result;
}

class transport_versions : public testing::Test {
 protected:
  void start(kinds of_newer, kinds of_older) {
    newer = std::make_unique<newer_process>(std::move(of_newer));
    older = std::make_unique<node>(options_with(std::move(of_older)));
    server = caf::actor_cast<caf::actor>(spawn_server(older->system));
    older->net->publish("server", server);
    remote = resolved(newer->system, newer->net, older->net->endpoint());
  }

  void expect_batches_pass() {
    EXPECT_FALSE(ask<batch>(newer->system, remote, batch{1, "note", {patterned(100, 1)}}));
  }

  void TearDown() override {
    remote = nullptr;
    if (server)
      caf::anon_send_exit(server, caf::exit_reason::user_shutdown);
    newer.reset();
  }

  std::unique_ptr<newer_process> newer;
  std::unique_ptr<node> older;
  caf::actor server;
  caf::actor remote;
};

TEST_F(transport_versions, a_kind_that_the_peer_does_not_know_is_not_sent) {
  start({{batch_name, {1, 1}}, {novelty_name, {1, 1}}}, {{batch_name, {1, 1}}});
  const auto err = ask<novelty>(newer->system, remote, novelty{1});
  EXPECT_TRUE(is_transport_error(err, transport_error::unknown_kind)) << caf::to_string(err);
  EXPECT_NE(newer->system.render(err).find(novelty_name), std::string::npos);
  expect_batches_pass();
  EXPECT_EQ(newer->net.stats().messages_withheld, 1U);
  EXPECT_EQ(older->net->stats().messages_unknown, 0U);
}

TEST_F(transport_versions, versions_that_differ_at_the_end_go_together) {
  start({{batch_name, {1, 3}}}, {{batch_name, {1, 1}}});
  expect_batches_pass();
  EXPECT_EQ(newer->net.stats().messages_withheld, 0U);
}

TEST_F(transport_versions, another_layout_is_another_kind) {
  start({{batch_name, {2, 2}}}, {{batch_name, {1, 1}}});
  const auto err = ask<batch>(newer->system, remote, batch{});
  EXPECT_TRUE(is_transport_error(err, transport_error::unknown_kind)) << caf::to_string(err);
}

TEST_F(transport_versions, a_kind_that_comes_all_the_same_is_counted_and_answered_and_harms_nobody) {
  start({}, {});
  for (int i = 0; i < 2; ++i) {
    const auto err = ask<novelty>(newer->system, remote, novelty{1});
    EXPECT_TRUE(is_transport_error(err, transport_error::unknown_kind)) << caf::to_string(err);
    EXPECT_NE(newer->system.render(err).find(novelty_name), std::string::npos);
  }
  caf::anon_send(remote, novelty{2});
  expect_batches_pass(); // over the same connection, behind the others
  EXPECT_EQ(older->net->stats().messages_unknown, 3U);
  EXPECT_EQ(older->net->stats().peers_lost, 0U);
  const auto lines = older->lines();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const auto& line) { return line.find(novelty_name) != std::string::npos; }),
            1);
}

class transport_versions_answers : public transport_versions, public testing::WithParamInterface<bool> {};

TEST_P(transport_versions_answers, one_of_an_unknown_kind_is_an_error_to_whoever_asked) {
  const bool tells_its_kinds = GetParam();
  const kinds known{{batch_name, {1, 1}}};
  auto all = known;
  all.push_back({novelty_name, {1, 1}});
  start(tells_its_kinds ? all : kinds{}, tells_its_kinds ? known : kinds{});
  const auto novel =
      newer->system.spawn([]() -> caf::behavior { return {[](batch&) { return novelty{1}; }}; });
  newer->net.publish("server", novel);
  const auto asked = resolved(older->system, *older->net, newer->net.endpoint());
  const auto err = ask<batch>(older->system, asked, batch{});
  EXPECT_TRUE(is_transport_error(err, transport_error::unknown_kind)) << caf::to_string(err);
  caf::anon_send_exit(novel, caf::exit_reason::user_shutdown);
}

INSTANTIATE_TEST_SUITE_P(known_before_or_not, transport_versions_answers, testing::Bool());

TEST_F(transport_versions, a_peer_of_another_version_is_logged_with_what_it_does_not_get) {
  start({{batch_name, {1, 1}}}, {{batch_name, {1, 1}}, {"troupe::test::other", {1, 1}}});
  expect_batches_pass();
  EXPECT_TRUE(older->await_line("peer-of-other-version: "));
  EXPECT_TRUE(older->logged("not sent to it: troupe::test::other"));
}

} // namespace
} // namespace troupe::test
