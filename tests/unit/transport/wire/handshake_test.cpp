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

// Lets both talk until nobody has anything to say. `tamper` may change what the client hears and says.
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
  const std::string next = std::to_string(protocol_version + 1);
  hello[4] = std::byte{protocol_version + 1};
  EXPECT_EQ(server.feed(hello), state::failed);
  EXPECT_NE(server.error().find("version " + next), std::string::npos);
  auto answer = server.take_output();
  ASSERT_GE(answer.size(), record_head_bytes);
  answer[4] = std::byte{protocol_version + 1};
  EXPECT_EQ(client.feed(answer), state::failed);
  EXPECT_NE(client.error().find("version " + next), std::string::npos);
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
