// Bytes and peers: frames over UCX to peers met on the rendezvous socket, on one progress thread at a time.
// No actors here.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/transport/fabric/faults.hpp"
#include "actors/transport/fabric/peer_connection.hpp"
#include "actors/transport/fabric/poller.hpp"
#include "actors/transport/fabric/polling.hpp"
#include "actors/transport/fabric/rendezvous.hpp"
#include "actors/transport/fabric/ucx_worker.hpp"
#include "actors/transport/wire/frame.hpp"

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

struct fabric_settings {
  /// Where to listen; empty means that nobody can come to us.
  std::string listen;
  /// "host:port" told to peers; port 0 stands for the bound port; empty means `listen`.
  std::string advertise;
  std::string secret;
  std::string fingerprint;
  /// The kinds of messages that peers are told of.
  std::vector<message_kind> kinds;
  /// Names this incarnation; never two at once.
  std::string node;
  ucx_settings ucx;
  /// Give every peer on this host a worker of its own for shared memory.
  bool shared_memory = false;
  send_window::limits window;
  std::uint64_t max_frame_bytes = 0;
  std::chrono::milliseconds heartbeat{};
  std::chrono::milliseconds silence{};
  std::chrono::milliseconds handshake_deadline{};
  std::size_t max_guests = 0;
  /// How long to look for work before sleeping, where that pays.
  std::chrono::microseconds polling{};
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
  std::uint64_t bytes_under_way = 0; ///< sent and not handled, over all peers
  std::chrono::microseconds slowest_round_trip{0};
};

class fabric : private ucx_worker::handler, private rendezvous::host {
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

  /// Binds: `endpoint` and `port` are known from then on.
  /// @errors throws `std::runtime_error`
  fabric(fabric_settings settings, listener& ears);

  ~fabric() override;

  /// Starts the progress thread, once, when the listener can use this object: the first frame may be there
  /// already.
  void start();

  /// Sends what is queued, within half a second, and leaves. Everything may still be called afterwards and
  /// does nothing.
  void stop();

  /// "host:port" as told to peers, empty when not listening.
  const std::string& endpoint() const { return endpoint_; }

  std::uint16_t port() const { return port_; }

  /// Ships a frame. Never blocks.
  /// @threads any, with no lock of the fabric's listener held
  submission submit(const peer_connection_ptr& to, outgoing_frame frame);

  /// The frame that came with `what` has been handled: its sender may send as much again. Never blocks.
  /// @threads any, with no lock of the fabric's listener held
  void handled(const peer_connection_ptr& peer, credit what);

  /// Finds or makes the connection to `endpoint` and calls `done` on the progress thread, by `deadline` at
  /// the latest.
  void connect(std::string endpoint, clock::time_point deadline, on_connected done);

  /// Runs `task` on the progress thread.
  void post(std::function<void()> task) override;

  /// Ends the connection, soon, as if the peer had died.
  void drop(const peer_connection_ptr& peer, std::string reason);

  /// For the listener, when a frame arrives: whether it may keep work for `next_job`.
  bool may_keep_jobs() const { return may_keep_jobs_; }

  fabric_counters counters() const;

  /// @threads any; takes a system call for each peer
  fabric_level level() const;

 private:
  struct send_operation;
  struct piece_operation;

  /// A dialled endpoint and who waits for it.
  struct attempt {
    struct waiter {
      clock::time_point deadline;
      on_connected done;
    };

    std::vector<waiter> waiters;
    bool dialling = false;
    clock::time_point retry_at;
  };

  struct delayed_frame {
    peer_connection_ptr to;
    outgoing_frame frame;
  };

  // -- sending (fabric_send.cpp) ----------------------------------------------
  submission enqueue(const peer_connection_ptr& to, outgoing_frame frame);
  void drain_queue();
  void post_frame(std::unique_ptr<send_operation> op);
  void send_pieces(peer_connection& peer);
  bool pieces_pause(const bulk_traffic& bulk);
  void move_pieces();
  void give_to_ucx(peer_connection& peer, frame_header& header, std::span<std::byte> head,
                   std::span<io_part> parts, std::unique_ptr<ucx_worker::operation> op);
  void wake();

  // -- workers (fabric_workers.cpp) ---------------------------------------------
  std::unique_ptr<shared_memory_lane> open_lane();
  /// Under the worker mutex, on the progress thread: for peers that never came up.
  void keep_lane(std::unique_ptr<shared_memory_lane> lane);
  /// Under the worker mutex, on the progress thread: for peers that are gone.
  void close_lane(std::unique_ptr<shared_memory_lane> lane);
  void sweep_lanes(clock::time_point now);
  /// Under the worker mutex.
  unsigned progress_workers();
  bool arm_workers();
  bool workers_closing();
  void connect_worker(peer_connection& peer);

  // -- receiving, under the worker mutex (fabric_receive.cpp) -------------------
  bool arrived(const ucx_worker::arrival& msg) override;
  bool take_payload(const ucx_worker::arrival& msg, const slot_ptr& slot);
  bool take_piece(const ucx_worker::arrival& msg, peer_connection& peer, const frame_header& header);
  void take_in_turn(peer_connection& peer, slot_ptr slot);
  void collect(peer_connection& peer);
  void collect_fetched();
  bool deliver();

  // -- peers, on the progress thread (fabric_peers.cpp) -------------------------
  introduction introduce() override;
  void forget_token(std::uint64_t token) override;
  std::optional<std::pair<refusal, std::string>> admit(const introduction& guest) override;
  void met(acquaintance who) override;
  void missed(const std::string& endpoint, const std::string& error, std::optional<refusal> reason,
              const std::string& node) override;
  void log(const char* event, const std::string& text) override;
  peer_connection_ptr find_node(const std::string& node) const;
  peer_connection_ptr find_endpoint(const std::string& endpoint) const;
  void settle(const std::string& endpoint, const connection& result);
  void start_dialling(const std::string& endpoint);
  void tick_attempts(clock::time_point now);
  void on_socket(const peer_connection_ptr& peer);
  void on_records(const peer_connection_ptr& peer);
  void flush_socket(const peer_connection_ptr& peer);
  void fail(const peer_connection_ptr& peer, const std::string& reason);

  // -- who is the progress thread (fabric_duty.cpp) -----------------------------
  void work(bool on_duty);
  bool wait_for_duty();
  bool run_jobs();
  bool away_for(clock::time_point since, const std::function<void()>& work);
  void allow_jobs();

  // -- the progress thread (fabric.cpp) -----------------------------------------
  bool run();
  bool progress_worker(bool may_arm, bool& armed);
  void bury_broken();
  void run_tasks();
  void tick(clock::time_point now);
  void send_heartbeats();
  void leave();

  fabric_settings settings_;
  listener& ears_;
  std::string endpoint_;
  std::uint16_t port_ = 0;
  std::size_t max_head_bytes_ = 0;

  poller events_;
  descriptor wake_;
  std::unique_ptr<rendezvous> meetings_;

  // UCX and what it hands out. Whoever holds the mutex may call the worker.
  std::mutex worker_mutex_;
  std::unique_ptr<ucx_worker> worker_;
  std::vector<ucx_worker*> lanes_;
  std::vector<std::unique_ptr<shared_memory_lane>> spare_lanes_;
  std::vector<std::unique_ptr<shared_memory_lane>> closing_lanes_;
  bool told_no_shared_memory_ = false; // once is enough: every further peer would say the same
  std::unordered_map<std::uint64_t, peer_connection_ptr> by_token_;
  std::vector<slot_ptr> inbox_;
  connection_signals signals_;
  clock::time_point last_urgent_{}; // message, either way
  std::size_t operations_ = 0;

  // Frames for whoever gets the worker next, and tasks for the progress thread.
  mutable std::mutex queue_mutex_;
  std::deque<std::unique_ptr<send_operation>> queue_;
  std::vector<std::function<void()>> tasks_;
  std::atomic<std::size_t> queued_{0};
  std::atomic<bool> has_tasks_{false};

  // When a pause of pieces ends, by the fabric's clock; 0: there is none. Written under the worker mutex.
  std::atomic<clock::rep> pieces_due_{0};

  // Progress thread only.
  std::vector<peer_connection_ptr> peers_;
  std::map<std::string, attempt> attempts_;
  std::multimap<clock::time_point, delayed_frame> delayed_;
  clock::time_point next_tick_;
  clock::time_point next_heartbeat_;
  polling polling_;
  bool may_keep_jobs_ = false;
  clock::time_point no_jobs_until_;

  mutable std::mutex peers_mutex_;
  std::atomic<bool> stop_{false};
  std::atomic<std::thread::id> progress_thread_{};

  // Since when the progress thread has been away on a job, by its clock; 0 when it is not. Whoever sets it
  // from that to 0 is the progress thread from then on.
  std::atomic<clock::rep> away_since_{0};
  std::atomic<bool> relief_waits_{false};
  std::mutex duty_mutex_;
  std::condition_variable duty_changed_;
  bool over_ = false;
  std::array<std::thread, 2> threads_;

  struct {
    std::atomic<std::uint64_t> frames_sent{0};
    std::atomic<std::uint64_t> frames_received{0};
    std::atomic<std::uint64_t> bytes_sent{0};
    std::atomic<std::uint64_t> bytes_received{0};
    std::atomic<std::uint64_t> frames_refused{0};
    std::atomic<std::uint64_t> stray_frames{0};
    std::atomic<std::uint64_t> fetched_frames{0};
    std::atomic<std::uint64_t> wake_ups{0};
    std::atomic<std::uint64_t> peers_lost{0};
  } totals_;
};

} // namespace troupe::wire
