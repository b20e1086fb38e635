// Hostile bytes on the rendezvous socket. The first byte picks the speaker: a stranger to a server, a
// stranger to a client, or a peer that has the secret and lies about the rest. The second byte cuts the
// stream. For any cut the outcome is the same: an acquaintance whose introduction keeps the limits, or one
// clear error.
#include "actors/transport/wire/handshake.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace troupe::wire;
using role = handshake::role;
using state = handshake::state;
using bytes = std::vector<std::byte>;

constexpr auto secret = "secret";

void require(bool holds) {
  if (!holds)
    std::abort();
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text});
}

introduction self() {
  return {"here", "model", "here:1", 17, 1000, 10, "address", "memory"};
}

/// Feeds `input` in pieces of `step` bytes; accepts every peer with a proof.
void hear(handshake& listener, std::span<const std::byte> input, std::size_t step) {
  while (!input.empty() && listener.current() == state::waiting) {
    const auto piece = input.first(std::min(step, input.size()));
    input = input.subspan(piece.size());
    if (listener.feed(piece) == state::deciding)
      listener.accept();
  }
}

/// Invariants for any input.
void check(const handshake& listener) {
  if (listener.current() == state::failed || listener.current() == state::refused)
    require(listener.error().size() < 8192);
  if (listener.current() == state::failed)
    require(!listener.error().empty());
  if (listener.current() == state::done) {
    const auto& peer = listener.peer();
    require(!peer.node.empty() && peer.node.size() <= 255 && peer.fingerprint.size() <= 1024
            && peer.endpoint.size() <= 512 && !peer.worker_address.empty()
            && peer.worker_address.size() <= 32768 && peer.shared_memory_address.size() <= 32768);
    require(peer.kinds.size() <= 512 && peer.role.size() <= 64
            && version_mismatch(self().versions, peer.versions).empty());
    require(fingerprint_mismatch(peer.fingerprint, self().fingerprint).empty());
  }
}

/// The body of the only record in `output`.
bytes body_of(const bytes& output) {
  record_reader reader;
  require(reader.feed(output));
  auto only = reader.next();
  require(only.has_value());
  return std::move(only->body);
}

bytes joined(std::span<const std::byte> front, std::span<const std::byte> back) {
  bytes result{front.begin(), front.end()};
  result.insert(result.end(), back.begin(), back.end());
  return result;
}

/// A client that knows the secret introduces itself with `claim`.
void honest_client(std::span<const std::byte> claim, std::size_t step) {
  handshake server{role::server, secret, self()};
  const bytes own_nonce(sizeof(nonce), std::byte{1});
  hear(server, encode_record(record_type::hello, own_nonce), step);
  const auto challenge = body_of(server.take_output());
  const auto mac = hmac_sha256(secret, {bytes_of("client"), own_nonce, challenge, claim});
  if (claim.size() + mac.size() <= max_record_body)
    hear(server, encode_record(record_type::proof, joined(mac, claim)), step);
  check(server);
}

/// A server that knows the secret answers with `claim`, as proof or as refusal.
void honest_server(std::span<const std::byte> claim, std::size_t step, bool refuses) {
  handshake client{role::client, secret, self()};
  const auto hello = body_of(client.take_output());
  const bytes own_nonce(sizeof(nonce), std::byte{2});
  hear(client, encode_record(record_type::challenge, own_nonce), step);
  const auto proof = body_of(client.take_output());
  const auto mac = hmac_sha256(secret, {bytes_of(refuses ? "refusal" : "server"), hello, own_nonce,
                                        std::span{proof}.first(sizeof(digest)), claim});
  if (claim.size() + mac.size() <= max_record_body)
    hear(client, encode_record(refuses ? record_type::refusal : record_type::proof, joined(mac, claim)),
         step);
  check(client);
}

/// All records of a stream that arrives in pieces of `step` bytes, and the error it ends with.
std::pair<std::vector<bytes>, std::string> records_of(std::span<const std::byte> input, std::size_t step) {
  record_reader reader;
  std::vector<bytes> result;
  while (!input.empty() && reader.error().empty()) {
    const auto piece = input.first(std::min(step, input.size()));
    input = input.subspan(piece.size());
    reader.feed(piece);
    while (auto rec = reader.next()) {
      require(rec->body.size() <= max_record_body);
      result.push_back(std::move(rec->body));
    }
  }
  return {std::move(result), reader.error()};
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2)
    return 0;
  const auto input = std::as_bytes(std::span{data, size}).subspan(2);
  const std::size_t step = std::size_t{data[1]} + 1;
  switch (data[0] % 6) {
  case 0: {
    handshake server{role::server, secret, self()};
    hear(server, input, step);
    check(server);
    require(server.current() != state::done); // a peer without the secret is never accepted
    break;
  }
  case 1: {
    handshake client{role::client, secret, self()};
    hear(client, input, step);
    check(client);
    require(client.current() != state::done && client.current() != state::refused);
    break;
  }
  case 2:
    honest_client(input, step);
    break;
  case 3:
    honest_server(input, step, false);
    break;
  case 4:
    honest_server(input, step, true);
    break;
  default:
    require(records_of(input, step) == records_of(input, size));
  }
  return 0;
}
