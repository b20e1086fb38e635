#include "actors/transport/fabric/ucx_fabric.hpp"

#include <algorithm>
#include <stdexcept>

#include <sys/eventfd.h>
#include <unistd.h>

#include "actors/transport/fabric/send_operation.hpp"

namespace troupe::wire {

namespace {

using namespace std::chrono_literals;

// Under steady load sockets are looked at this often instead of after every frame.
constexpr auto socket_interval = 1ms;

// How long a process that leaves waits for its last frames.
constexpr auto leave_deadline = 500ms;
/// What of it is left for connections to close, however much there was to send.
constexpr auto close_deadline = 100ms;

} // namespace

ucx_fabric::ucx_fabric(ucx_fabric_settings settings, listener& ears)
    : settings_(std::move(settings)),
      ears_(ears),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      polling_(settings_.polling),
      meeting_(settings_, static_cast<peer_meeting::host&>(*this)),
      duty_(ears_) {
  if (settings_.secret.now()->empty())
    throw std::runtime_error("transport: the cluster secret is empty");
  if (!wake_)
    throw std::runtime_error("transport: eventfd failed");
  rendezvous_ = std::make_unique<rendezvous>(events_, static_cast<rendezvous::host&>(*this), settings_.secret,
                                             settings_.handshake_deadline, settings_.max_guests);
  std::string endpoint;
  if (!settings_.listen.empty()) {
    rendezvous_->listen(parse_endpoint(settings_.listen));
    port_ = rendezvous_->port();
    auto name = parse_endpoint(settings_.advertise.empty() ? settings_.listen : settings_.advertise);
    if (name.port == 0)
      name.port = port_;
    endpoint = to_string(name);
  }
  meeting_.start(std::move(endpoint), clock::now());
  workers_ =
      std::make_unique<ucx_workers>(settings_.ucx, events_, static_cast<ucx_worker::handler&>(*this),
                                    [this](const char* event, const std::string& text) { log(event, text); });
  // 4 KiB of metadata ride beside the header; more goes in front of the data, which every transport can
  // carry.
  max_head_bytes_ = std::min<std::size_t>(workers_->network().max_head_bytes(), 4096);
  events_.watch(wake_.get(), false, [this] {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto ignored = ::read(wake_.get(), &count, sizeof(count));
  });
}

void ucx_fabric::start() {
  duty_.start([this] { return run(); }, [this] { leave(); });
}

ucx_fabric::~ucx_fabric() {
  stop();
}

void ucx_fabric::stop() {
  if (stop_.exchange(true))
    return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
  duty_.join();
}

void ucx_fabric::post(std::function<void()> task) {
  {
    std::lock_guard guard{queue_mutex_};
    tasks_.push_back(std::move(task));
    has_tasks_ = true;
  }
  wake();
}

bool ucx_fabric::run() {
  auto now = clock::now();
  auto next_sockets = now;
  while (!stop_) {
    bool armed = false;
    const bool polls = polling_.worth(now);
    bool busy = progress_worker(!polls, armed);
    if (deliver()) {
      busy = true;
      armed = false;
      if (!duty_.run_jobs())
        return false;
    }
    run_tasks();
    bury_broken();
    now = clock::now();
    if (busy)
      polling_.worked(now, polls);
    if (armed && queued_ == 0 && !has_tasks_ && !stop_) {
      auto until = std::min(meeting_.next_tick(), now + peer_meeting::tick_interval);
      if (!delayed_.empty())
        until = std::min(until, delayed_.begin()->first);
      if (const auto due = pieces_due_.load(); due != 0)
        until = std::min(until, clock::time_point{clock::duration{due}});
      ++totals_.wake_ups;
      const auto timeout = std::max(std::chrono::ceil<std::chrono::milliseconds>(until - now), 0ms);
      events_.wait(timeout);
      polling_.slept(clock::now() - now);
      now = clock::now();
      next_sockets = now + socket_interval;
    } else if (now >= next_sockets || now >= meeting_.next_tick()) {
      // Before deadlines are judged: what makes a peer look silent may be our own pause.
      events_.wait(0ms);
      next_sockets = now + socket_interval;
    }
    if (polls && !busy) {
      std::this_thread::yield();
      const auto then = std::exchange(now, clock::now());
      polling_.yielded(now - then, now);
    }
    while (!delayed_.empty() && delayed_.begin()->first <= now) {
      auto node = delayed_.extract(delayed_.begin());
      enqueue(node.mapped().to, std::move(node.mapped().frame));
    }
    if (now >= meeting_.next_tick())
      tick(now);
  }
  return true;
}

bool ucx_fabric::progress_worker(bool may_arm, bool& armed) {
  bool busy = false;
  std::lock_guard guard{worker_mutex_};
  // Rounds before others get the worker and sockets get a look.
  for (int i = 0; i < 64; ++i) {
    drain_queue();
    collect_fetched();
    move_pieces();
    if (workers_->progress() == 0)
      break;
    busy = true;
    // Frames that have arrived do not wait until no more pieces come.
    if (signals_.pieces_moved && !inbox_.empty())
      break;
  }
  collect_fetched();
  move_pieces();
  const bool closing = workers_->closing();
  if (may_arm && !busy && inbox_.empty() && !signals_.broken && !closing)
    armed = workers_->arm();
  return busy;
}

void ucx_fabric::run_tasks() {
  if (!has_tasks_)
    return;
  std::vector<std::function<void()>> taken;
  {
    std::lock_guard guard{queue_mutex_};
    taken.swap(tasks_);
    has_tasks_ = false;
  }
  for (auto& task : taken)
    task();
}

void ucx_fabric::bury_broken() {
  std::vector<std::pair<ucx_peer_ptr, std::string>> broken;
  {
    std::lock_guard guard{worker_mutex_};
    if (!signals_.broken)
      return;
    signals_.broken = false;
    for (const auto& [token, peer] : by_token_)
      if (!peer->failure.empty() && peer->current() != peer_connection::state::meeting) // else once it is met
        broken.emplace_back(peer, peer->failure);
  }
  for (const auto& [peer, why] : broken)
    fail(peer, why);
}

void ucx_fabric::tick(clock::time_point now) {
  rendezvous_->tick(now);
  {
    std::lock_guard guard{worker_mutex_};
    workers_->sweep(now);
  }
  meeting_.tick(now);
  ears_.tick(now);
}

void ucx_fabric::leave() {
  duty_.allow_jobs(false);
  ears_.hand_over_jobs();
  const auto begun = clock::now();
  const auto progress_until = [this](clock::time_point deadline, auto done) {
    while (clock::now() < deadline) {
      {
        std::lock_guard guard{worker_mutex_};
        drain_queue();
        workers_->progress();
        collect_fetched();
        const bool is_closed = workers_->progress_closed();
        if (done(is_closed))
          return;
      }
      deliver();
    }
  };
  progress_until(begun + leave_deadline - close_deadline, [this](bool) {
    move_pieces();
    return operations_ == 0 && queued_ == 0
           && std::all_of(by_token_.begin(), by_token_.end(), [](const auto& entry) {
                return entry.second->bulk.outgoing.empty() || !entry.second->failure.empty();
              });
  });
  const auto peers = meeting_.peers();
  for (const auto& peer : peers)
    fail(peer, "this process is leaving");
  progress_until(begun + leave_deadline,
                 [this](bool is_closed) { return is_closed && !workers_->closing(); });
  rendezvous_.reset();
  std::lock_guard guard{worker_mutex_};
  for (const auto& [token, peer] : by_token_)
    for (auto& lane : peer->lanes)
      lane.waiting.clear(); // slots hold their peer
  by_token_.clear();
  workers_.reset();
}

fabric_counters ucx_fabric::counters() const {
  return {totals_.frames_sent,    totals_.frames_received, totals_.bytes_sent,
          totals_.bytes_received, totals_.frames_refused,  totals_.stray_frames,
          totals_.fetched_frames, totals_.wake_ups,        totals_.peers_lost};
}

fabric_level ucx_fabric::level() const {
  std::lock_guard guard{peers_mutex_};
  fabric_level result;
  result.peers = meeting_.peers().size();
  for (const auto& peer : meeting_.peers()) {
    for (std::size_t i = 0; i < num_lanes; ++i)
      result.bytes_under_way[i] += peer->lanes[i].window.bytes_under_way();
    const auto round_trip = round_trip_of(static_cast<const ucx_peer&>(*peer).socket);
    result.round_trips_by_role[peer->peer.role].add({1, round_trip, round_trip});
  }
  return result;
}

} // namespace troupe::wire
