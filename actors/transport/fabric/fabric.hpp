// Frames to peers and from them: what the CAF half needs of whatever carries them. Between processes that is
// UCX (ucx_fabric.hpp); a simulation puts links of its own below the same CAF half.
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

/// What every fabric is told.
struct fabric_settings {
  /// Where to listen; empty means that nobody can come to us.
  std::string listen;
  /// "host:port" told to peers; port 0 stands for the bound port; empty means `listen`.
  std::string advertise;
  std::string secret;
  std::string fingerprint;
  /// The kinds of messages that peers are told of.
  std::vector<message_kind> kinds;
  /// Likewise: what kind of process this is.
  std::string role;
  /// Names this incarnation; never two at once.
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

/// What there is now.
struct fabric_level {
  std::size_t peers = 0;
  std::array<std::uint64_t, num_lanes> bytes_under_way{}; ///< sent and not handled, over all peers, by lane
  std::map<std::string, round_trips> round_trips_by_role; ///< of the peers, as they call themselves
};

/// One process's connections to its peers. Frames to one peer arrive once and, within a lane, in the order
/// they were submitted, as long as the connection lives; of those that are under way when it ends, the last
/// are lost.
class fabric {
 public:
  /// Hears what happens, on the progress thread and without any lock held.
  class listener {
   public:
    virtual ~listener();
    virtual void peer_up(const peer_connection_ptr& peer) = 0;
    /// @param data  payloads of the frame, 64-byte aligned
    /// @param due   for `handled`, once whoever the frame is for has handled it
    /// Returns false when the frame makes no sense: the peer is dropped.
    virtual bool frame_arrived(const peer_connection_ptr& peer, const frame_header& header,
                               std::span<const std::byte> metadata, payload data, credit due) = 0;
    virtual void peer_down(const peer_connection_ptr& peer, const std::string& reason) = 0;
    virtual void tick(clock::time_point now) = 0;

    using step = std::function<void()>;
    /// Returns what the same thread is to do once no job is left, if anything.
    using job = std::function<step()>;

    /// Takes out work that frames have brought, empty when there is none. Jobs and steps may take their
    /// time: another thread then becomes the progress thread. Steps are meant to.
    virtual job next_job() = 0;

    /// Gives work that has not been taken out to others.
    virtual void hand_over_jobs() = 0;
  };

  /// Outcome of `connect`: a peer, or ourselves, or an error.
  struct connection {
    peer_connection_ptr peer;
    bool self = false;
    std::string error;
  };

  using on_connected = std::function<void(connection)>;

  virtual ~fabric();

  /// Begins to call the listener, once, when it can use this object: the first frame may be there already.
  virtual void start() = 0;

  /// Sends what is queued, briefly, and leaves. Everything may still be called afterwards and does nothing.
  virtual void stop() = 0;

  /// "host:port" as told to peers, empty when not listening.
  virtual const std::string& endpoint() const = 0;

  virtual std::uint16_t port() const = 0;

  /// The present, by the clock that the deadlines of `connect` are of.
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

  /// For the listener, when a frame arrives: whether it may keep work for `next_job`.
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
