// The meeting of two peers on the rendezvous socket, as a state machine over bytes: no sockets, no clock.
//
//     client                                server
//       | hello      nonce_c                  |
//       |------------------------------------>|
//       |            challenge      nonce_s   |
//       |<------------------------------------|
//       | proof      digest_c, introduction_c |   the server checks digest and fingerprint, then decides
//       |------------------------------------>|
//       |       proof  digest_s, introduction_s    or    refusal  digest_s, reason
//       |<------------------------------------|
//
// digest_c = HMAC(the client's first secret, "client" nonce_c nonce_s introduction_c); digest_s covers
// digest_c as well, so a digest can be replayed neither later nor back at its maker. The client proves itself
// first: a stranger learns nothing. The server believes any of its secrets, and answers by the one that the
// client has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/transport/wire/authentication.hpp"
#include "actors/transport/wire/cluster_secrets.hpp"
#include "actors/transport/wire/message_kind.hpp"
#include "actors/transport/wire/protocol_version.hpp"
#include "actors/transport/wire/record.hpp"

namespace troupe::wire {

/// What peers tell each other about themselves. Fields are appended only: what a reader does not know it
/// skips.
struct introduction {
  /// Opaque bytes that name this incarnation of the process; never two at once, ordered by comparison.
  std::string node;
  /// The model served; peers must agree. Empty (gateway, scheduler) goes with any.
  std::string fingerprint;
  /// "host:port" where this process can be met, empty when it does not listen.
  std::string endpoint;
  /// Name the receiver of frames gives to this connection.
  std::uint64_t token = 0;
  /// How much the receiver takes from this peer before it has acknowledged (see `send_window`).
  std::uint64_t window_bytes = 0;
  std::uint64_t window_frames = 0;
  /// UCX worker address, opaque bytes.
  std::string worker_address;
  /// Address of the worker that takes what this one peer sends through shared memory; empty when there is
  /// none.
  std::string shared_memory_address;
  /// Of the protocol. Peers must have one in common.
  version_range versions = protocol_versions();
  /// The kinds of messages that it knows; empty: it does not say.
  std::vector<message_kind> kinds{};
  /// What kind of process it is, such as "gateway"; empty: it does not say.
  std::string role{};

  friend bool operator==(const introduction&, const introduction&) = default;
};

/// Why a server that believes the client still says no.
enum class refusal : std::uint8_t {
  /// Models differ.
  fingerprint = 1,
  /// The server's own connection to the client is up, or is being made and takes precedence.
  connected = 2,
  /// The client has met itself.
  self = 3,
  /// The server is closing.
  closing = 4,
  /// No version of the protocol in common.
  version = 5,
};

class handshake {
 public:
  enum class role : std::uint8_t { client, server };

  enum class state : std::uint8_t {
    /// Needs more bytes.
    waiting,
    /// Server: the client has proved itself; `accept` or `refuse` now.
    deciding,
    /// Both sides know each other: `peer()`.
    done,
    /// The peer believes us and says no: `refused_with()`, `error()`; `peer().node` names it.
    refused,
    /// Not a peer: `error()`.
    failed,
  };

  /// @param secrets  of the cluster; at least one
  handshake(role who, const cluster_secrets& secrets, introduction self);

  /// Takes bytes from the socket, wherever they were cut.
  state feed(std::span<const std::byte> bytes);

  /// Server, in state `deciding`: the connection stands once `output` has been sent.
  state accept();

  /// Server, in state `deciding`: the client learns why.
  state refuse(refusal reason, const std::string& text);

  /// Bytes to send, which the caller takes.
  std::vector<std::byte> take_output() { return std::exchange(output_, {}); }

  state current() const { return state_; }

  const introduction& peer() const { return peer_; }

  const std::string& error() const { return error_; }

  refusal refused_with() const { return refusal_; }

  /// Reader with whatever followed the handshake, for the connection to go on with.
  record_reader take_reader() { return std::move(reader_); }

 private:
  state on_record(const record& rec);
  state on_hello(const record& rec);
  state on_challenge(const record& rec);
  state on_client_proof(const record& rec);
  state on_server_proof(const record& rec);
  state on_refusal(const record& rec);
  state fail(std::string why);
  void put(record_type type, const byte_writer& body);
  bool knows_client(std::span<const std::byte> body);
  digest client_digest(const std::string& secret, std::span<const std::byte> body) const;
  digest server_digest(std::string_view label, std::span<const std::byte> body) const;

  role role_;
  state state_ = state::waiting;
  std::shared_ptr<const std::vector<std::string>> secrets_;
  std::string secret_; ///< of these: a client's first, a server's that the client has proved
  introduction self_;
  introduction peer_;
  nonce own_nonce_{};
  nonce peer_nonce_{};
  bool have_peer_nonce_ = false;
  digest client_digest_{};
  record_reader reader_;
  std::vector<std::byte> output_;
  std::string error_;
  refusal refusal_ = refusal::closing;
};

/// Empty when the protocol versions `own` and those of a peer have one in common, else a sentence that names
/// both.
std::string version_mismatch(const version_range& own, const version_range& peer);

/// Empty when models `lhs` and `rhs` go together, else a sentence that names both.
std::string fingerprint_mismatch(const std::string& lhs, const std::string& rhs);

} // namespace troupe::wire
