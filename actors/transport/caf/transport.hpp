// Carries actor messages between processes over UCX: publish an actor here, resolve it there, use it as if
// local.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <caf/actor_cast.hpp>
#include <caf/fwd.hpp>
#include <caf/replies_to.hpp>
#include <caf/timespan.hpp>
#include <caf/typed_actor.hpp>

#include "actors/transport/fabric/round_trips.hpp"
#include "actors/transport/fabric/ucx_repairs.hpp"
#include "actors/transport/wire/cluster_secrets.hpp"
#include "actors/transport/wire/message_kind.hpp"
#include "actors/transport/wire/payload.hpp"

namespace troupe {

class fault_injector;

namespace wire {
class fabric_maker;
} // namespace wire

/// How one process takes part. Durations and sizes have defaults that suit a cluster on one switch.
struct transport_options {
  /// "HOST:PORT" to listen on; port 0 takes any free port; empty: peers cannot dial this process, which can
  /// still dial them.
  std::string listen;
  /// "HOST:PORT" peers dial; empty: as `listen`; port 0: the bound port.
  std::string advertise;
  /// At least one, which peers must have. The holder of a copy may replace the secrets at any time.
  wire::cluster_secrets secret;
  /// Fingerprint of the model served; empty (gateway, scheduler) goes with any.
  std::string fingerprint;
  /// The kinds of messages that this process knows, for peers of other versions; empty: peers are not told,
  /// and every kind is sent to them.
  std::vector<wire::message_kind> kinds;
  /// What kind of process this is, such as "gateway", for figures of its peers. At most 64 bytes.
  std::string role;
  /// UCX data ports "LO-HI" (UCX_TCP_PORT_RANGE), empty: ephemeral.
  std::string data_ports;
  /// UCX network devices (UCX_NET_DEVICES), empty: UCX chooses.
  std::string net_devices;
  /// Whether the repairs of UCX act. They are the process's: the transport that was made last decides.
  ucx_repairs repairs = ucx_repairs::automatic;
  /// Use POSIX shared memory to peers on this host.
  bool shared_memory = false;
  /// What may be sent to one peer, in each lane, that its actors have not handled: beyond it requests fail
  /// with `window_full`. Answers and notifications have as much again; a peer that fills that is
  /// disconnected.
  std::uint64_t window_bytes = std::uint64_t{128} << 20;
  std::uint64_t window_messages = 65'536;
  /// Whether a message is large and can wait: it then travels in the bulk lane, in pieces, and all others
  /// overtake it. It must not matter to its receiver in which order it comes with them. Empty: none is.
  std::function<bool(const caf::message&)> is_bulk;
  /// Largest message, metadata and payloads together; larger ones fail with `message_too_large`.
  std::uint64_t max_message_bytes = std::uint64_t{1} << 30;
  /// A peer that sends nothing for `silence` is dead; each peer sends something every `heartbeat`. Four
  /// heartbeats fit into a silence and no more: each wakes a process up, and a scheduler may have 1,000
  /// peers.
  std::chrono::milliseconds heartbeat{500};
  std::chrono::milliseconds silence{2000};
  /// Longest time that a connection may stay unauthenticated, and how many may be at a time: as many workers
  /// may lose their scheduler in the same instant. Each connection costs a descriptor and some 10 KB until
  /// the deadline. A peer that is turned away at the limit dials again.
  std::chrono::milliseconds handshake_deadline{3000};
  std::size_t max_unauthenticated = 1024;
  /// `resolve` without an own deadline gives up after this.
  std::chrono::milliseconds resolve_deadline{5000};
  /// A request to a peer that has no answer for this long gets caf::sec::request_timeout. It is for senders
  /// that wait without a deadline of their own, and longer than any deadline.
  std::chrono::milliseconds max_request_age{600'000};
  /// How long to look for messages before sleeping, as long as that finds some and no other thread wants
  /// the core; 0: never.
  std::chrono::microseconds polling{50};
  /// What carries frames to peers; null: UCX. A simulation hands in links of its own.
  std::shared_ptr<wire::fabric_maker> fabric;
  /// Failure injection for tests.
  std::shared_ptr<fault_injector> faults;
  /// Gets one line per event worth telling: a stable event name and a text. Default: standard error.
  std::function<void(const char* event, const std::string& text)> log;
};

/// Errors of the transport itself. Requests to peers can also fail with:
///   - `caf::sec::request_receiver_down`: the peer was known to be dead, or the actor has ended;
///   - `caf::exit_reason::remote_link_unreachable`: the peer died while the request was under way;
///   - `caf::sec::request_timeout`: the requester's own deadline.
enum class transport_error : std::uint8_t {
  /// The peer's window is full: too much is unacknowledged. Try again later, or elsewhere.
  window_full = 1,
  /// Larger than `max_message_bytes`.
  message_too_large,
  /// Dialling or the handshake failed; the error's context says why.
  cannot_connect,
  /// The peer has published no actor under this name.
  no_such_service,
  /// Peers of two versions of the program: the receiver does not know this kind of message, or its layout.
  unknown_kind,
};

caf::error make_error(transport_error code, const std::string& context = {});

/// True when `err` is `code`.
bool is_transport_error(const caf::error& err, transport_error code);

/// The TRANSPORT interface, for actors that find others by name.
using transport_actor = caf::typed_actor<
    // Finds the actor published under a name at "host:port", connecting first if need be. Our own endpoint
    // resolves locally. Fails with transport_error::cannot_connect or no_such_service within
    // `resolve_deadline`.
    caf::replies_to<caf::resolve_atom, std::string, std::string>::with<caf::strong_actor_ptr>,
    // The same with an own deadline.
    caf::replies_to<caf::resolve_atom, std::string, std::string, caf::timespan>::with<caf::strong_actor_ptr>>;

/// Readings for metrics; totals count from the start.
struct transport_stats {
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  /// Messages refused because of the window or their size.
  std::uint64_t frames_refused = 0;
  /// Frames of fenced peers or strangers.
  std::uint64_t stray_frames = 0;
  /// Frames whose data came by rendezvous straight into its buffer.
  std::uint64_t fetched_frames = 0;
  /// Times the progress thread went to sleep.
  std::uint64_t wake_ups = 0;
  std::uint64_t peers_lost = 0;
  /// Messages that were not sent, since the peer's version does not know their kind.
  std::uint64_t messages_withheld = 0;
  /// Messages that came and were dropped, since this version does not know their kind.
  std::uint64_t messages_unknown = 0;
  /// Gauge: bytes sent that the receiving actors have not handled, over all peers.
  std::uint64_t bytes_under_way = 0;
  /// Gauge: those of them in the bulk lane.
  std::uint64_t bulk_bytes_under_way = 0;
  /// Gauge: requests to peers that wait for an answer.
  std::uint64_t requests_pending = 0;
  /// Gauge: processes that this one is connected to.
  std::uint64_t peers = 0;
  /// Gauge: how far away the peers of each role are, as they call it.
  std::map<std::string, wire::round_trips> round_trips_by_role;
};

/// To be called on the configuration before the actor system is made: registers types and errors and gives
/// the system a node id that is unique per incarnation, without which all processes look like one.
void configure_transport(caf::actor_system_config& cfg);

/// One process's end of the transport. Make it after the actor system, destroy it before.
///
/// Messages to one peer arrive in the order they were sent, except that messages that are not bulk overtake
/// those that are; so does the news that an actor has ended. Monitors and links on remote actors fire when
/// the actor ends, or its process does. A handle to an actor of a third process works only while this process
/// is connected to that one too; pass service names where that is not certain.
class transport {
 public:
  /// Binds, and starts the progress thread.
  /// @errors throws `std::runtime_error`: unusable endpoint, empty secret, UCX failure, node id missing
  transport(caf::actor_system& sys, transport_options options);

  transport(const transport&) = delete;
  transport& operator=(const transport&) = delete;

  /// Flushes what is queued, briefly, and leaves: peers see this process die.
  ~transport();

  /// Lets peers resolve `whom` under `name`; replaces an earlier one.
  /// @threads any
  void publish(const std::string& name, const caf::strong_actor_ptr& whom);

  template <class Handle>
  void publish(const std::string& name, const Handle& whom) {
    publish(name, caf::actor_cast<caf::strong_actor_ptr>(whom));
  }

  void unpublish(const std::string& name);

  /// "host:port" where peers find this process, empty when it does not listen.
  const std::string& endpoint() const;

  /// The bound port, 0 when not listening.
  std::uint16_t port() const;

  /// For actors: `resolve` by message.
  const transport_actor& actor() const;

  transport_stats stats() const;

  /// The CAF half behind this; private to the transport's own sources.
  class core;

 private:
  std::shared_ptr<core> core_;
  transport_actor actor_;
};

} // namespace troupe
