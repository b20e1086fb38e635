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

#include "actors/transport/fabric/fabric.hpp"
#include "actors/transport/fabric/poller.hpp"
#include "actors/transport/fabric/polling.hpp"
#include "actors/transport/fabric/rendezvous.hpp"
#include "actors/transport/fabric/ucx_peer.hpp"
#include "actors/transport/fabric/ucx_worker.hpp"
#include "actors/transport/wire/frame.hpp"

namespace troupe::wire {

/// What UCX needs beside the rest.
struct ucx_fabric_settings : fabric_settings {
  ucx_settings ucx;
  /// Give every peer on this host a worker of its own for shared memory.
  bool shared_memory = false;
  /// How long to look for work before sleeping, where that pays.
  std::chrono::microseconds polling{};
};

/// Two threads of its own, of which one at a time is the progress thread.
class ucx_fabric : public fabric, private ucx_worker::handler, private rendezvous::host {
 public:
  /// Binds: `endpoint` and `port` are known from then on.
  /// @errors throws `std::runtime_error`
  ucx_fabric(ucx_fabric_settings settings, listener& ears);

  ~ucx_fabric() override;

  void start() override;

  /// Takes at most half a second to send what is queued.
  void stop() override;

  const std::string& endpoint() const override { return endpoint_; }

  std::uint16_t port() const override { return port_; }

  clock::time_point now() const override { return clock::now(); }

  submission submit(const peer_connection_ptr& peer, outgoing_frame frame) override;

  void handled(const peer_connection_ptr& peer, credit what) override;

  void connect(std::string endpoint, clock::time_point deadline, on_connected done) override;

  void post(std::function<void()> task) override;

  void drop(const peer_connection_ptr& peer, std::string reason) override;

  bool may_keep_jobs() const override { return may_keep_jobs_; }

  fabric_counters counters() const override;

  fabric_level level() const override;

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

  // -- workers (ucx_fabric_workers.cpp) ---------------------------------------------
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
  void connect_worker(ucx_peer& peer);

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
  ucx_peer_ptr find_node(const std::string& node) const;
  ucx_peer_ptr find_endpoint(const std::string& endpoint) const;
  void settle(const std::string& endpoint, const connection& result);
  void start_dialling(const std::string& endpoint);
  void tick_attempts(clock::time_point now);
  void on_socket(const ucx_peer_ptr& peer);
  void on_records(const ucx_peer_ptr& peer);
  void flush_socket(const ucx_peer_ptr& peer);
  void fail(const ucx_peer_ptr& peer, const std::string& reason);

  // -- who is the progress thread (ucx_fabric_duty.cpp) -----------------------------
  void work(bool on_duty);
  bool wait_for_duty();
  bool run_jobs();
  bool away_for(clock::time_point since, const std::function<void()>& work);
  void allow_jobs();

  // -- the progress thread (ucx_fabric.cpp) -------------------------------------
  bool run();
  bool progress_worker(bool may_arm, bool& armed);
  void bury_broken();
  void run_tasks();
  void tick(clock::time_point now);
  void send_heartbeats();
  void leave();

  ucx_fabric_settings settings_;
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
  std::unordered_map<std::uint64_t, ucx_peer_ptr> by_token_;
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
  std::vector<ucx_peer_ptr> peers_;
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
