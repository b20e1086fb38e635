#include "actors/transport/wire/handshake.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::wire {

namespace {

// Limits of the fields of an introduction, generous against what this program writes.
constexpr std::size_t max_node = 255;
constexpr std::size_t max_fingerprint = 1024;
constexpr std::size_t max_endpoint = 512;
constexpr std::size_t max_worker_address = 32768;
constexpr std::size_t max_refusal_text = 4096;
constexpr std::size_t max_kinds = 512;
constexpr std::size_t max_kind_name = 64;
constexpr std::size_t max_role = 64;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text});
}

byte_writer encode_introduction(const introduction& x) {
  byte_writer out;
  out.put_string(x.node);
  out.put_string(x.fingerprint);
  out.put_string(x.endpoint);
  out.put64(x.token);
  out.put64(x.window_bytes);
  out.put64(x.window_frames);
  out.put_string(x.worker_address);
  out.put_string(x.shared_memory_address);
  out.put16(x.versions.oldest);
  out.put16(x.versions.newest);
  out.put16(static_cast<std::uint16_t>(x.kinds.size()));
  for (const auto& kind : x.kinds) {
    out.put_string(kind.name);
    out.put16(kind.versions.oldest);
    out.put16(kind.versions.newest);
  }
  out.put_string(x.role);
  return out;
}

std::vector<message_kind> take_kinds(byte_parser& in) {
  std::vector<message_kind> result;
  const std::size_t count = in.take16();
  if (count > max_kinds)
    in.fail();
  while (!in.failed() && result.size() < count) {
    auto& kind = result.emplace_back();
    kind.name = in.take_string(max_kind_name);
    kind.versions.oldest = in.take16();
    kind.versions.newest = in.take16();
  }
  return result;
}

bool parse_introduction(std::span<const std::byte> bytes, introduction& x) {
  byte_parser in{bytes};
  x.node = in.take_string(max_node);
  x.fingerprint = in.take_string(max_fingerprint);
  x.endpoint = in.take_string(max_endpoint);
  x.token = in.take64();
  x.window_bytes = in.take64();
  x.window_frames = in.take64();
  x.worker_address = in.take_string(max_worker_address);
  x.shared_memory_address = in.take_string(max_worker_address);
  x.versions.oldest = in.take16();
  x.versions.newest = in.take16();
  x.kinds = take_kinds(in);
  if (!in.rest().empty()) // the first builds of this version end here
    x.role = in.take_string(max_role);
  // What follows is of a later version.
  return !in.failed() && !x.node.empty() && !x.worker_address.empty();
}

bool read_nonce(const record& rec, nonce& out) {
  if (rec.body.size() < out.size()) // later versions may say more behind it
    return false;
  std::copy_n(rec.body.begin(), out.size(), out.begin());
  return true;
}

// Splits a body into its digest and the rest.
bool split_digest(const record& rec, digest& mac, std::span<const std::byte>& rest) {
  if (rec.body.size() < mac.size())
    return false;
  std::copy_n(rec.body.begin(), mac.size(), mac.begin());
  rest = std::span{rec.body}.subspan(mac.size());
  return true;
}

} // namespace

std::string fingerprint_mismatch(const std::string& lhs, const std::string& rhs) {
  if (lhs == rhs || lhs.empty() || rhs.empty())
    return {};
  return "models differ: '" + lhs + "' and '" + rhs + "'";
}

std::string version_mismatch(const version_range& own, const version_range& peer) {
  if (own.overlaps(peer))
    return {};
  return "the peer speaks " + to_string(peer) + " of the protocol, this process speaks " + to_string(own);
}

handshake::handshake(role who, const cluster_secrets& secrets, introduction self)
    : role_(who), secrets_(secrets.now()), self_(std::move(self)) {
  if (secrets_->empty())
    throw std::runtime_error("transport: the cluster secret is empty");
  secret_ = secrets_->front();
  if (self_.fingerprint.size() > max_fingerprint || self_.endpoint.size() > max_endpoint
      || self_.node.size() > max_node || self_.worker_address.size() > max_worker_address
      || self_.shared_memory_address.size() > max_worker_address || self_.kinds.size() > max_kinds
      || self_.role.size() > max_role
      || std::any_of(self_.kinds.begin(), self_.kinds.end(),
                     [](const auto& kind) { return kind.name.size() > max_kind_name; }))
    throw std::runtime_error("transport: a field of the introduction is too long");
  fill_random(own_nonce_);
  if (role_ == role::client) {
    byte_writer body;
    body.put_raw(own_nonce_);
    put(record_type::hello, body);
  }
}

handshake::state handshake::feed(std::span<const std::byte> bytes) {
  const bool ok = reader_.feed(bytes);
  // A peer of another version is told ours before the connection ends, so that both can say what is wrong.
  if (!ok && state_ == state::waiting) {
    if (role_ == role::server && !have_peer_nonce_)
      put(record_type::challenge, byte_writer{});
    return fail(reader_.error());
  }
  while (state_ == state::waiting) {
    auto rec = reader_.next();
    if (!rec)
      break;
    on_record(*rec);
  }
  return state_;
}

handshake::state handshake::on_record(const record& rec) {
  if (role_ == role::server)
    return have_peer_nonce_ ? on_client_proof(rec) : on_hello(rec);
  if (!have_peer_nonce_)
    return on_challenge(rec);
  return rec.type == record_type::refusal ? on_refusal(rec) : on_server_proof(rec);
}

handshake::state handshake::on_hello(const record& rec) {
  if (rec.type != record_type::hello || !read_nonce(rec, peer_nonce_))
    return fail("malformed hello");
  have_peer_nonce_ = true;
  byte_writer body;
  body.put_raw(own_nonce_);
  put(record_type::challenge, body);
  return state_;
}

handshake::state handshake::on_challenge(const record& rec) {
  if (rec.type != record_type::challenge || !read_nonce(rec, peer_nonce_))
    return fail("malformed challenge");
  have_peer_nonce_ = true;
  const auto own = encode_introduction(self_);
  client_digest_ = client_digest(secret_, own.bytes());
  byte_writer body;
  body.put_raw(client_digest_);
  body.put_raw(own.bytes());
  put(record_type::proof, body);
  return state_;
}

handshake::state handshake::on_client_proof(const record& rec) {
  std::span<const std::byte> body;
  if (rec.type != record_type::proof || !split_digest(rec, client_digest_, body))
    return fail("malformed proof");
  if (!knows_client(body)) {
    // An empty refusal: the client cannot tell it from noise, but learns at once that waiting is in vain.
    put(record_type::refusal, byte_writer{});
    return fail("authentication failed: the peer does not have this cluster's secret");
  }
  if (!parse_introduction(body, peer_))
    return fail("malformed introduction");
  if (const auto why = version_mismatch(self_.versions, peer_.versions); !why.empty())
    return refuse(refusal::version, why);
  if (const auto why = fingerprint_mismatch(self_.fingerprint, peer_.fingerprint); !why.empty()) {
    refuse(refusal::fingerprint, why);
    error_ = why;
    return state_;
  }
  return state_ = state::deciding;
}

handshake::state handshake::accept() {
  const auto own = encode_introduction(self_);
  byte_writer body;
  body.put_raw(server_digest("server", own.bytes()));
  body.put_raw(own.bytes());
  put(record_type::proof, body);
  return state_ = state::done;
}

handshake::state handshake::refuse(refusal reason, const std::string& text) {
  byte_writer content;
  content.put8(static_cast<std::uint8_t>(reason));
  content.put_string(self_.node);
  content.put_string(std::string_view{text}.substr(0, max_refusal_text));
  byte_writer body;
  body.put_raw(server_digest("refusal", content.bytes()));
  body.put_raw(content.bytes());
  put(record_type::refusal, body);
  refusal_ = reason;
  error_ = text;
  return state_ = state::refused;
}

handshake::state handshake::on_server_proof(const record& rec) {
  std::span<const std::byte> body;
  digest mac{};
  if (rec.type != record_type::proof || !split_digest(rec, mac, body))
    return fail("malformed proof");
  if (!equal_digests(mac, server_digest("server", body)))
    return fail("authentication failed: the server does not have this cluster's secret");
  if (!parse_introduction(body, peer_))
    return fail("malformed introduction");
  if (auto why = version_mismatch(self_.versions, peer_.versions); !why.empty())
    return fail(std::move(why));
  if (auto why = fingerprint_mismatch(self_.fingerprint, peer_.fingerprint); !why.empty())
    return fail(std::move(why));
  return state_ = state::done;
}

handshake::state handshake::on_refusal(const record& rec) {
  std::span<const std::byte> body;
  digest mac{};
  if (!split_digest(rec, mac, body) || !equal_digests(mac, server_digest("refusal", body)))
    return fail("authentication failed: the server refused this process's secret");
  byte_parser in{body};
  refusal_ = static_cast<refusal>(in.take8());
  peer_.node = in.take_string(max_node);
  error_ = in.take_string(max_refusal_text);
  if (in.failed())
    return fail("malformed refusal");
  return state_ = state::refused;
}

handshake::state handshake::fail(std::string why) {
  error_ = std::move(why);
  return state_ = state::failed;
}

void handshake::put(record_type type, const byte_writer& body) {
  const auto encoded = encode_record(type, body.bytes());
  output_.insert(output_.end(), encoded.begin(), encoded.end());
}

bool handshake::knows_client(std::span<const std::byte> body) {
  bool known = false;
  for (const std::string& secret : *secrets_) // all of them: the time tells nothing
    if (equal_digests(client_digest_, client_digest(secret, body))) {
      secret_ = secret;
      known = true;
    }
  return known;
}

digest handshake::client_digest(const std::string& secret, std::span<const std::byte> body) const {
  const auto& client = role_ == role::client ? own_nonce_ : peer_nonce_;
  const auto& server = role_ == role::client ? peer_nonce_ : own_nonce_;
  return hmac_sha256(secret, {bytes_of("client"), client, server, body});
}

digest handshake::server_digest(std::string_view label, std::span<const std::byte> body) const {
  const auto& client = role_ == role::client ? own_nonce_ : peer_nonce_;
  const auto& server = role_ == role::client ? peer_nonce_ : own_nonce_;
  return hmac_sha256(secret_, {bytes_of(label), client, server, client_digest_, body});
}

} // namespace troupe::wire
