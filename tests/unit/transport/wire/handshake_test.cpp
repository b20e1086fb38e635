#include "actors/transport/wire/handshake.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <stdexcept>

namespace troupe::wire {
namespace {

using role = handshake::role;
using state = handshake::state;

introduction someone(const std::string& name, const std::string& fingerprint = "model-a") {
  return {name, fingerprint, name + ":1", 17, 1000, 10, "address of " + name, "memory of " + name};
}

// Exchanges output until both sides have none. `tamper` may change the client's input and output.
void converse(handshake& client, handshake& server) {
  for (bool busy = true; busy;) {
    busy = false;
    if (const auto bytes = client.take_output(); !bytes.empty()) {
      busy = true;
      server.feed(bytes);
      if (server.current() == state::deciding)
        server.accept();
    }
    if (const auto bytes = server.take_output(); !bytes.empty()) {
      busy = true;
      client.feed(bytes);
    }
  }
}

TEST(handshake_test, introduces_both) {
  handshake client{role::client, "secret", someone("anna")};
  handshake server{role::server, "secret", someone("berta")};
  converse(client, server);
  ASSERT_EQ(client.current(), state::done) << client.error();
  ASSERT_EQ(server.current(), state::done) << server.error();
  EXPECT_EQ(client.peer(), someone("berta"));
  EXPECT_EQ(server.peer(), someone("anna"));
}

TEST(handshake_test, works_byte_by_byte) {
  handshake client{role::client, "secret", someone("anna")};
  handshake server{role::server, "secret", someone("berta")};
  for (int round = 0; round < 3; ++round) {
    for (const auto byte : client.take_output())
      server.feed({&byte, 1});
    if (server.current() == state::deciding)
      server.accept();
    for (const auto byte : server.take_output())
      client.feed({&byte, 1});
  }
  EXPECT_EQ(client.current(), state::done);
  EXPECT_EQ(server.current(), state::done);
}

TEST(handshake_test, refuses_another_secret_on_both_sides) {
  handshake client{role::client, "guess", someone("anna")};
  handshake server{role::server, "secret", someone("berta")};
  converse(client, server);
  EXPECT_EQ(server.current(), state::failed);
  EXPECT_NE(server.error().find("secret"), std::string::npos);
  EXPECT_EQ(client.current(), state::failed);
  EXPECT_NE(client.error().find("secret"), std::string::npos);
  EXPECT_TRUE(server.peer().node.empty());
}

TEST(handshake_test, an_impostor_server_is_found_out) {
  handshake client{role::client, "secret", someone("anna")};
  handshake server{role::server, "secret", someone("berta")};
  server.feed(client.take_output());
  client.feed(server.take_output());
  // Echoes the client's own digest and introduction back.
  const auto proof = client.take_output();
  EXPECT_EQ(client.feed(proof), state::failed);
  EXPECT_NE(client.error().find("authentication failed"), std::string::npos);
}

TEST(handshake_test, a_recorded_proof_is_worth_nothing_later) {
  handshake client{role::client, "secret", someone("anna")};
  handshake server{role::server, "secret", someone("berta")};
  const auto hello = client.take_output();
  server.feed(hello);
  client.feed(server.take_output());
  const auto proof = client.take_output();
  handshake later{role::server, "secret", someone("berta")};
  later.feed(hello);
  EXPECT_EQ(later.feed(proof), state::failed);
}

TEST(handshake_test, different_models_do_not_go_together_and_both_say_so) {
  handshake client{role::client, "secret", someone("anna", "model-a")};
  handshake server{role::server, "secret", someone("berta", "model-b")};
  converse(client, server);
  EXPECT_EQ(server.current(), state::refused);
  ASSERT_EQ(client.current(), state::refused);
  EXPECT_EQ(client.refused_with(), refusal::fingerprint);
  for (const auto* side : {&client, &server}) {
    EXPECT_NE(side->error().find("model-a"), std::string::npos);
    EXPECT_NE(side->error().find("model-b"), std::string::npos);
  }
}

TEST(handshake_test, who_serves_no_model_goes_with_any) {
  handshake client{role::client, "secret", someone("anna", "")};
  handshake server{role::server, "secret", someone("berta", "model-b")};
  converse(client, server);
  EXPECT_EQ(client.current(), state::done);
  handshake other_client{role::client, "secret", someone("anna", "model-a")};
  handshake other_server{role::server, "secret", someone("berta", "")};
  converse(other_client, other_server);
  EXPECT_EQ(other_client.current(), state::done);
}

TEST(handshake_test, another_protocol_version_is_named_on_both_sides) {
  handshake client{role::client, "secret", someone("anna")};
  handshake server{role::server, "secret", someone("berta")};
  auto hello = client.take_output();
  const auto later = protocol_versions().newest + 1;
  const std::string next = std::to_string(later);
  hello[4] = static_cast<std::byte>(later);
  EXPECT_EQ(server.feed(hello), state::failed);
  EXPECT_NE(server.error().find("version " + next), std::string::npos);
  auto answer = server.take_output();
  ASSERT_GE(answer.size(), record_head_bytes);
  answer[4] = static_cast<std::byte>(later);
  EXPECT_EQ(client.feed(answer), state::failed);
  EXPECT_NE(client.error().find("version " + next), std::string::npos);
}

TEST(handshake_test, neighbouring_versions_go_together_and_know_of_each_other) {
  const auto own = protocol_versions().newest;
  auto older = someone("anna");
  auto newer = someone("berta");
  newer.versions = {own, static_cast<std::uint16_t>(own + 1)};
  newer.kinds = {{"first", {1, 2}}, {"second", {3, 3}}};
  newer.role = "expert";
  handshake client{role::client, "secret", older};
  handshake server{role::server, "secret", newer};
  converse(client, server);
  ASSERT_EQ(client.current(), state::done) << client.error();
  EXPECT_EQ(client.peer(), newer);
  EXPECT_EQ(server.peer(), older);
}

TEST(handshake_test, versions_without_one_in_common_are_named_on_both_sides) {
  const auto own = protocol_versions().newest;
  auto newer = someone("berta");
  newer.versions = {static_cast<std::uint16_t>(own + 1), static_cast<std::uint16_t>(own + 2)};
  handshake client{role::client, "secret", newer};
  handshake server{role::server, "secret", someone("anna")};
  converse(client, server);
  EXPECT_EQ(server.current(), state::refused);
  ASSERT_EQ(client.current(), state::refused);
  EXPECT_EQ(client.refused_with(), refusal::version);
  for (const auto* side : {&client, &server}) {
    EXPECT_NE(side->error().find(to_string(newer.versions)), std::string::npos) << side->error();
    EXPECT_NE(side->error().find(to_string(protocol_versions())), std::string::npos) << side->error();
  }
  // The server's introduction does not count either.
  handshake other_client{role::client, "secret", someone("anna")};
  handshake other_server{role::server, "secret", newer};
  other_server.feed(other_client.take_output());
  other_client.feed(other_server.take_output());
  EXPECT_EQ(other_server.feed(other_client.take_output()), state::refused);
}

/// A server's reaction to a client whose introduction is longer or shorter by N bytes than this version
/// writes it.
handshake met_with(std::ptrdiff_t more_bytes) {
  const nonce theirs{};
  handshake server{role::server, "secret", someone("berta")};
  std::vector<std::byte> hello(theirs.begin(), theirs.end());
  hello.resize(hello.size() + 5); // more than a nonce
  server.feed(encode_record(record_type::hello, hello));
  const auto challenge = server.take_output();
  const auto own = std::span{challenge}.subspan(record_head_bytes);
  handshake client{role::client, "secret", someone("anna")};
  client.take_output();
  client.feed(challenge);
  const auto proof = client.take_output();
  std::vector<std::byte> claim(proof.begin() + record_head_bytes + sizeof(digest), proof.end());
  claim.resize(static_cast<std::size_t>(std::ssize(claim) + more_bytes), std::byte{42});
  const std::string label = "client";
  const auto mac = hmac_sha256("secret", {std::as_bytes(std::span{label}), theirs, own, claim});
  std::vector<std::byte> body(mac.begin(), mac.end());
  body.insert(body.end(), claim.begin(), claim.end());
  server.feed(encode_record(record_type::proof, body));
  return server;
}

TEST(handshake_test, what_a_later_version_says_behind_our_fields_is_skipped) {
  const auto server = met_with(7);
  ASSERT_EQ(server.current(), state::deciding) << server.error();
  EXPECT_EQ(server.peer(), someone("anna"));
}

TEST(handshake_test, a_peer_need_not_say_its_role) {
  const auto server = met_with(-2); // the length of an empty one
  ASSERT_EQ(server.current(), state::deciding) << server.error();
  EXPECT_EQ(server.peer(), someone("anna"));
}

TEST(handshake_test, a_role_that_is_cut_off_is_malformed) {
  EXPECT_EQ(met_with(-1).current(), state::failed);
}

TEST(handshake_test, a_role_has_a_bound) {
  auto self = someone("anna");
  self.role = std::string(65, 'r');
  EXPECT_THROW((handshake{role::client, "secret", self}), std::runtime_error);
}

TEST(handshake_test, a_list_of_kinds_has_a_bound) {
  auto self = someone("anna");
  self.kinds.resize(513);
  EXPECT_THROW((handshake{role::client, "secret", self}), std::runtime_error);
  self.kinds = {{std::string(65, 'k'), {1, 1}}};
  EXPECT_THROW((handshake{role::client, "secret", self}), std::runtime_error);
}

TEST(handshake_test, the_owner_may_refuse) {
  handshake client{role::client, "secret", someone("anna")};
  handshake server{role::server, "secret", someone("berta")};
  server.feed(client.take_output());
  client.feed(server.take_output());
  ASSERT_EQ(server.feed(client.take_output()), state::deciding);
  server.refuse(refusal::connected, "already connected");
  EXPECT_EQ(client.feed(server.take_output()), state::refused);
  EXPECT_EQ(client.refused_with(), refusal::connected);
  EXPECT_EQ(client.peer().node, "berta");
  EXPECT_EQ(client.error(), "already connected");
}

TEST(handshake_test, every_changed_byte_of_a_proof_is_noticed) {
  handshake client{role::client, "secret", someone("anna")};
  const auto hello = client.take_output();
  handshake server{role::server, "secret", someone("berta")};
  server.feed(hello);
  client.feed(server.take_output());
  const auto proof = client.take_output();
  for (std::size_t at = record_head_bytes; at < proof.size(); ++at) {
    auto changed = proof;
    changed[at] ^= std::byte{1};
    auto copy = server;
    EXPECT_EQ(copy.feed(changed), state::failed) << at;
  }
  EXPECT_EQ(server.feed(proof), state::deciding);
}

TEST(handshake_test, what_follows_the_handshake_is_kept) {
  handshake client{role::client, "secret", someone("anna")};
  handshake server{role::server, "secret", someone("berta")};
  server.feed(client.take_output());
  client.feed(server.take_output());
  server.feed(client.take_output());
  server.accept();
  auto bytes = server.take_output();
  const auto heartbeat = encode_record(record_type::heartbeat, {});
  bytes.insert(bytes.end(), heartbeat.begin(), heartbeat.end());
  ASSERT_EQ(client.feed(bytes), state::done);
  auto reader = client.take_reader();
  const auto rec = reader.next();
  ASSERT_TRUE(rec);
  EXPECT_EQ(rec->type, record_type::heartbeat);
}

TEST(handshake_test, an_empty_secret_is_refused) {
  EXPECT_THROW((handshake{role::client, "", someone("anna")}), std::runtime_error);
  EXPECT_THROW((handshake{role::client, cluster_secrets{}, someone("anna")}), std::runtime_error);
}

/// The final states of two sides with these secrets.
std::pair<state, state> met_with(const cluster_secrets& clients, const cluster_secrets& servers) {
  handshake client{role::client, clients, someone("anna")};
  handshake server{role::server, servers, someone("berta")};
  server.feed(client.take_output());
  client.feed(server.take_output());
  if (server.feed(client.take_output()) == state::deciding)
    server.accept();
  client.feed(server.take_output());
  return {client.current(), server.current()};
}

TEST(handshake_test, the_first_secret_is_sent_and_all_are_believed) {
  using list = std::vector<std::string>;
  const std::pair met{state::done, state::done};
  const std::pair strangers{state::failed, state::failed};
  const cluster_secrets before{"old"};
  const cluster_secrets both{list{"old", "new"}};
  const cluster_secrets turned{list{"new", "old"}};
  const cluster_secrets after{"new"};
  // Each step of an exchange is compatible with its neighbours, on either side.
  const std::vector<cluster_secrets> steps{before, both, turned, after};
  for (std::size_t a = 0; a < steps.size(); ++a)
    for (std::size_t b = 0; b < steps.size(); ++b)
      if (a + 1 >= b && b + 1 >= a)
        EXPECT_EQ(met_with(steps[a], steps[b]), met) << a << b;
  EXPECT_EQ(met_with(before, after), strangers);
  EXPECT_EQ(met_with(both, after), strangers) << "a client has sent another than its first";
  EXPECT_EQ(met_with(after, before), strangers);
}

TEST(handshake_test, secrets_are_replaced_for_meetings_to_come) {
  cluster_secrets kept{"old"};
  const cluster_secrets given = kept;
  EXPECT_EQ(met_with("new", given).second, state::failed);
  kept.replace({"new", ""});
  EXPECT_EQ(met_with("new", given).second, state::done);
  EXPECT_EQ(met_with("old", given).second, state::failed);
}

TEST(handshake_test, survives_noise) {
  std::mt19937_64 random{7};
  for (int round = 0; round < 2000; ++round) {
    handshake client{role::client, "secret", someone("anna")};
    handshake server{role::server, "secret", someone("berta")};
    auto bytes = client.take_output();
    for (int i = 0; i < 3; ++i)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    server.feed(bytes);
    EXPECT_NE(server.current(), state::done);
  }
}

} // namespace
} // namespace troupe::wire
