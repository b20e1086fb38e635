// Interface between the CAF half of the transport and what carries frames to and from peers. Between
// processes UCX carries them (ucx_fabric.hpp); the simulation carries them over simulated links.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/transport/fabric/clock.hpp"
#include "actors/transport/fabric/faults.hpp"
#include "actors/transport/fabric/peer_connection.hpp"
#include "actors/transport/fabric/round_trips.hpp"
#include "actors/transport/wire/cluster_secrets.hpp"
#include "actors/transport/wire/frame.hpp"
#include "actors/transport/wire/payload.hpp"
#include "actors/transport/wire/window.hpp"

namespace troupe::wire {

/// A frame to send. `head` has room for the header in front of the metadata.
struct outgoing_frame {
  explicit outgoing_frame(frame_kind kind) {
    header.kind = kind;
    // Header, type names and a small message: one allocation.
    head.reserve(512);
    head.resize(frame_header_bytes);
  }

  frame_header header;
  std::vector<char> head;
  std::vector<payload> parts;
  /// Refused rather than given the second window (see `send_window`).
  bool refusable = false;
};

enum class submission : std::uint8_t { accepted, window_full, too_large, dead };

/// Settings that every fabric has.
struct fabric_settings {
  /// Where to listen; empty: peers cannot dial this process.
  std::string listen;
  /// "host:port" told to peers; port 0 stands for the bound port; empty means `listen`.
  std::string advertise;
  cluster_secrets secret;
  std::string fingerprint;
  /// The kinds of messages that this process tells its peers that it knows.
  std::vector<message_kind> kinds;
  /// The kind of process that it tells its peers it is.
  std::string role;
  /// Names this incarnation of the process; no two processes have the same at one time.
  std::string node;
  send_window::limits window;
  std::uint64_t max_frame_bytes = 0;
  std::chrono::milliseconds heartbeat{};
  std::chrono::milliseconds silence{};
  std::chrono::milliseconds handshake_deadline{};
  std::size_t max_guests = 0;
  std::shared_ptr<fault_injector> faults;
  std::function<void(const char* event, const std::string& text)> log;
};

/// Running totals since the start.
struct fabric_counters {
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t frames_refused = 0;
  std::uint64_t stray_frames = 0;
  std::uint64_t fetched_frames = 0;
  std::uint64_t wake_ups = 0;
  std::uint64_t peers_lost = 0;
};

/// Gauges.
struct fabric_level {
  std::size_t peers = 0;
  std::array<std::uint64_t, num_lanes> bytes_under_way{}; ///< sent and not handled, over all peers, by lane
  std::map<std::string, round_trips> round_trips_by_role; ///< of the peers, as they call themselves
};

/// Connections of one process to its peers. As long as a connection lives, its frames arrive once and, within
/// a lane, in the order in which they were submitted. When it ends, the last of the frames under way are
/// lost.
class fabric {
 public:
  /// Is called on the progress thread, without any lock held.
  class listener {
   public:
    virtual ~listener();
    virtual void peer_up(const peer_connection_ptr& peer) = 0;
    /// @param data  payloads of the frame, 64-byte aligned
    /// @param due   to pass to `handled`, once the receiver of the frame has handled it
    /// @returns false if the frame makes no sense: the peer is dropped
    virtual bool frame_arrived(const peer_connection_ptr& peer, const frame_header& header,
                               std::span<const std::byte> metadata, payload data, credit due) = 0;
    virtual void peer_down(const peer_connection_ptr& peer, const std::string& reason) = 0;
    virtual void tick(clock::time_point now) = 0;

    using step = std::function<void()>;
    /// @returns what the same thread does once no job is left; may be empty
    using job = std::function<step()>;

    /// Takes out work that frames have brought; empty if there is none. Jobs and steps may take long: another
    /// thread then becomes the progress thread.
    virtual job next_job() = 0;

    /// Gives the work that has not been taken out to other threads.
    virtual void hand_over_jobs() = 0;
  };

  /// Outcome of `connect`: a peer, or this process itself, or an error.
  struct connection {
    peer_connection_ptr peer;
    bool self = false;
    std::string error;
  };

  using on_connected = std::function<void(connection)>;

  virtual ~fabric();

  /// Begins to call the listener. Called once, when the listener can use this object: the first frame may
  /// have arrived.
  virtual void start() = 0;

  /// Sends what is queued, within a bounded time, and leaves. Calls afterwards do nothing.
  virtual void stop() = 0;

  /// "host:port" as told to peers, empty when not listening.
  virtual const std::string& endpoint() const = 0;

  virtual std::uint16_t port() const = 0;

  /// The present, by the clock of the deadlines of `connect`.
  virtual clock::time_point now() const = 0;

  /// Ships a frame. Never blocks.
  /// @threads any, with no lock of the fabric's listener held
  virtual submission submit(const peer_connection_ptr& to, outgoing_frame frame) = 0;

  /// The frame that came with `what` has been handled: its sender may send as much again. Never blocks.
  /// @threads any, with no lock of the fabric's listener held
  virtual void handled(const peer_connection_ptr& peer, credit what) = 0;

  /// Finds or makes the connection to `endpoint` and calls `done` on the progress thread, by `deadline` at
  /// the latest.
  virtual void connect(std::string endpoint, clock::time_point deadline, on_connected done) = 0;

  /// Runs `task` on the progress thread.
  virtual void post(std::function<void()> task) = 0;

  /// Ends the connection, soon, as if the peer had died.
  virtual void drop(const peer_connection_ptr& peer, std::string reason) = 0;

  /// Whether the listener may keep the work of a frame that arrives for `next_job`.
  virtual bool may_keep_jobs() const = 0;

  virtual fabric_counters counters() const = 0;

  /// @threads any; may take a system call for each peer
  virtual fabric_level level() const = 0;
};

/// Makes a process's fabric.
class fabric_maker {
 public:
  virtual ~fabric_maker();

  /// @param ears  outlives what is made
  /// @errors throws `std::runtime_error`, e.g. when `settings.listen` cannot be bound
  virtual std::unique_ptr<fabric> make(fabric_settings settings, fabric::listener& ears) = 0;
};

} // namespace troupe::wire
