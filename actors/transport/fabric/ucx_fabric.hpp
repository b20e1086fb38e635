// Fabric between processes: frames over UCX to peers met on the rendezvous socket. At any time one of its two
// threads is the progress thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/transport/fabric/fabric.hpp"
#include "actors/transport/fabric/peer_meeting.hpp"
#include "actors/transport/fabric/poller.hpp"
#include "actors/transport/fabric/polling.hpp"
#include "actors/transport/fabric/progress_duty.hpp"
#include "actors/transport/fabric/rendezvous.hpp"
#include "actors/transport/fabric/ucx_peer.hpp"
#include "actors/transport/fabric/ucx_worker.hpp"
#include "actors/transport/fabric/ucx_workers.hpp"
#include "actors/transport/wire/frame.hpp"

namespace troupe::wire {

/// Settings of this fabric.
struct ucx_fabric_settings : fabric_settings {
  ucx_settings ucx;
  /// Give every peer on this host a worker of its own for shared memory.
  bool shared_memory = false;
  /// How long to look for work before sleeping, where that pays.
  std::chrono::microseconds polling{};
};

class ucx_fabric : public fabric,
                   private ucx_worker::handler,
                   private rendezvous::host,
                   private peer_meeting::host {
 public:
  /// Binds: `endpoint` and `port` are known from then on.
  /// @errors throws `std::runtime_error`
  ucx_fabric(ucx_fabric_settings settings, listener& ears);

  ~ucx_fabric() override;

  void start() override;

  /// Takes at most half a second to send what is queued.
  void stop() override;

  const std::string& endpoint() const override { return meeting_.endpoint(); }

  std::uint16_t port() const override { return port_; }

  clock::time_point now() const override { return clock::now(); }

  submission submit(const peer_connection_ptr& peer, outgoing_frame frame) override;

  void handled(const peer_connection_ptr& peer, credit what) override;

  void connect(std::string endpoint, clock::time_point deadline, on_connected done) override;

  void post(std::function<void()> task) override;

  void drop(const peer_connection_ptr& peer, std::string reason) override;

  bool may_keep_jobs() const override { return duty_.may_keep_jobs(); }

  fabric_counters counters() const override;

  fabric_level level() const override;

 private:
  struct send_operation;
  struct piece_operation;

  struct delayed_frame {
    ucx_peer_ptr to;
    outgoing_frame frame;
  };

  // -- sending (ucx_fabric_send.cpp) ----------------------------------------------
  submission enqueue(const ucx_peer_ptr& to, outgoing_frame frame);
  void drain_queue();
  void post_frame(std::unique_ptr<send_operation> op);
  void send_pieces(ucx_peer& peer);
  bool pieces_pause(const bulk_traffic& bulk);
  void move_pieces();
  void give_to_ucx(ucx_peer& peer, frame_header& header, std::span<std::byte> head, std::span<io_part> parts,
                   std::unique_ptr<ucx_worker::operation> op);
  void wake();

  // -- receiving, under the worker mutex (ucx_fabric_receive.cpp) -------------------
  bool arrived(const ucx_worker::arrival& msg) override;
  bool take_payload(const ucx_worker::arrival& msg, const slot_ptr& slot);
  bool take_piece(const ucx_worker::arrival& msg, ucx_peer& peer, const frame_header& header);
  void take_in_turn(ucx_peer& peer, slot_ptr slot);
  void collect(ucx_peer& peer);
  void collect_fetched();
  bool deliver();

  // -- peers, on the progress thread (ucx_fabric_peers.cpp) -------------------------
  introduction introduce() override;
  void forget_token(std::uint64_t token) override;
  std::optional<std::pair<refusal, std::string>> admit(const introduction& guest) override;
  void met(acquaintance who) override;
  void missed(const std::string& endpoint, const std::string& error, std::optional<refusal> reason,
              const std::string& node) override;
  void log(const char* event, const std::string& text) override;
  void dial(const std::string& endpoint) override;
  void stop_dialling(const std::string& endpoint) override;
  bool has_closed(const peer_connection_ptr& peer) const override;
  void send_heartbeat(const peer_connection_ptr& to) override;
  void on_socket(const ucx_peer_ptr& peer);
  void on_records(const ucx_peer_ptr& peer);
  void flush_socket(const ucx_peer_ptr& peer);
  void fail(const peer_connection_ptr& which, const std::string& reason) override;

  // -- the progress thread (ucx_fabric.cpp) -------------------------------------
  bool run();
  bool progress_worker(bool may_arm, bool& armed);
  void bury_broken();
  void run_tasks();
  void tick(clock::time_point now);
  void leave();

  ucx_fabric_settings settings_;
  listener& ears_;
  std::uint16_t port_ = 0;
  std::size_t max_head_bytes_ = 0;

  poller events_;
  descriptor wake_;
  std::unique_ptr<rendezvous> rendezvous_;

  // The thread that holds the mutex may call UCX and use what UCX hands out.
  std::mutex worker_mutex_;
  std::unique_ptr<ucx_workers> workers_;
  std::unordered_map<std::uint64_t, ucx_peer_ptr> by_token_;
  std::vector<slot_ptr> inbox_;
  connection_signals signals_;
  clock::time_point last_urgent_{}; // message, either way
  std::size_t operations_ = 0;

  // Frames for the next thread that gets the worker mutex, and tasks for the progress thread.
  mutable std::mutex queue_mutex_;
  std::deque<std::unique_ptr<send_operation>> queue_;
  std::vector<std::function<void()>> tasks_;
  std::atomic<std::size_t> queued_{0};
  std::atomic<bool> has_tasks_{false};

  // When a pause of pieces ends, by the fabric's clock; 0: there is none. Written under the worker mutex.
  std::atomic<clock::rep> pieces_due_{0};

  // Progress thread only.
  std::multimap<clock::time_point, delayed_frame> delayed_;
  polling polling_;

  // Changed by the progress thread alone, and its peers under `peers_mutex_`, with which others may read
  // them.
  peer_meeting meeting_;
  mutable std::mutex peers_mutex_;
  std::atomic<bool> stop_{false};
  progress_duty duty_;

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
